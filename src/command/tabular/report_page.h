/* The page of `etude report`: one HTML document that needs nothing from outside, light and dark.
 *
 *     et_report_page_begin(&page, "runs/adult");
 *     et_report_page_section(&page, "Data");
 *     et_report_page_fact(&page, "rows", "%d", 30162);
 *     et_report_page_end(&page);                              page.html
 *
 * Texts may come from anyone: they are escaped. Memory that is out stays in page.html.failed. */
#ifndef ETUDE_COMMAND_TABULAR_REPORT_PAGE_H
#define ETUDE_COMMAND_TABULAR_REPORT_PAGE_H

#include "base/text/strbuf.h"
#include "command/runs/chart.h"
#include "formats/grid.h"

typedef struct et_report_page {
    et_strbuf html; /* owned by the caller */
    bool section;   /* one is open */
    bool facts;     /* a list of facts is open */
} et_report_page;

void et_report_page_begin(et_report_page *page, const char *title);
/* Ends the section before. */
void et_report_page_section(et_report_page *page, const char *title);
/* "rows 30,162": consecutive ones are one list. */
void et_report_page_fact(et_report_page *page, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void et_report_page_text(et_report_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Lines as they are, such as commands. */
void et_report_page_lines(et_report_page *page, const char *text);
void et_report_page_grid(et_report_page *page, const et_grid *grid);
/* A chart without points is left out. Charts that follow each other are beside each other where the
 * page is wide. */
int et_report_page_chart(et_report_page *page, const et_chart *chart, et_error *error);
int et_report_page_bars(et_report_page *page, const et_chart_bars *bars, et_error *error);
/* Lines that are shown when the reader asks. */
void et_report_page_details(et_report_page *page, const char *title, const char *text);
void et_report_page_end(et_report_page *page);

#endif
