/* The page of settings, doc/reference/settings.md: what the field tables say of each setting, and
 * what each experiment sets otherwise. A new row of a table is on the page as soon as that is made
 * anew. */
#ifndef ETUDE_COMMAND_PAGES_SETTINGS_PAGE_H
#define ETUDE_COMMAND_PAGES_SETTINGS_PAGE_H

#include <stdio.h>

#include <etude/command.h>

/* ET_ECONFIG: an experiment's own settings are wrong. */
int et_settings_page(FILE *to, const et_program *program, et_error *error);

#endif
