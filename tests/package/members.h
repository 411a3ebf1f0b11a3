/* Every function that doc/reference/members.md names, called like in a program: with public headers
 * only and the shared library. These cases check that the documented call exists and does what the
 * document says; other tests check all details. members_*.c have the cases of each system;
 * test_members.c runs them. */
#ifndef ETUDE_TESTS_PACKAGE_MEMBERS_H
#define ETUDE_TESTS_PACKAGE_MEMBERS_H

#include <etude/etude.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

extern et_error *const error;

/* Fails with the error's text. */
void ok(int status);

double number(const et_value *dict, const char *key);

/* Data: rows x with their labels. */
enum { ROWS = 12, BATCH = 4, CLASSES = 3 };

int open_rows(et_source **out, bool training);

void test_members__trainer(void **state);
void test_members__task_by_hand(void **state);
void test_members__translator(void **state);
void test_members__translation(void **state);
void test_members__loop(void **state);
void test_members__tables(void **state);

#endif
