/* The page of settings, doc/reference/settings.md: the descriptions of the field tables, and the
 * values that experiments change. A new row of a table is on the page when the page is made
 * again. */
#ifndef ETUDE_COMMAND_PAGES_SETTINGS_PAGE_H
#define ETUDE_COMMAND_PAGES_SETTINGS_PAGE_H

#include <stdio.h>

#include <etude/command.h>

/* ET_ECONFIG: an experiment's own settings are wrong. */
int et_settings_page(FILE *to, const et_program *program, et_error *error);

#endif
