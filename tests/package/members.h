/* Every function that doc/reference/members.md names, called as a program would: on public headers
 * alone, with the shared library. What each of them does in every case is tested where it lives;
 * here the documented call is there, and does what is documented. Cases stand in members_*.c, by
 * whose members they call; test_members.c runs them. */
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
