#include "command/tabular/report_page.h"

#include <stdarg.h>
#include <string.h>

#include "base/text/strbuf.h"

/* Pixels. A page of 420 pixels shows a chart nearly in this size, so its text is readable. */
#define CHART_WIDTH  400
#define CHART_HEIGHT 320

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n";

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--text:#1c2430;--soft:#5c6877;"
    "--line:#dde2e8;--mark:#2f6fde}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#12161c;--card:#1a2029;--text:#e4e9f0;"
    "--soft:#98a4b3;--line:#2c3541;--mark:#7aa7ff}}\n"
    "body{margin:0 auto;max-width:980px;padding:16px;background:var(--back);color:var(--text);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:8px;"
    "padding:4px 18px 14px;margin:14px 0;overflow-x:auto}\n"
    "h1{font-size:22px;overflow-wrap:anywhere}h2{font-size:17px}h3{font-size:15px}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    "table{border-collapse:collapse;margin:6px 0}\n"
    "td,th{padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid var(--line);"
    "vertical-align:top}\n"
    ".number{text-align:right;font-variant-numeric:tabular-nums}\n"
    "pre{background:var(--back);border:1px solid var(--line);border-radius:6px;padding:8px 12px;"
    "overflow-x:auto;font-size:13px}\n"
    "summary{cursor:pointer;color:var(--mark)}svg{max-width:100%;height:auto;"
    "margin:6px 24px 6px 0;vertical-align:top}\n"
    "@media(max-width:600px){body{padding:8px;font-size:14px}section{padding:2px 12px 12px}"
    "td,th{padding:3px 10px 3px 0;font-size:13px}td:last-child{min-width:7em}"
    ".number:last-child{min-width:0}dl{grid-template-columns:minmax(5em,max-content) 1fr;"
    "gap:2px 10px}pre{white-space:pre-wrap;overflow-wrap:anywhere}svg{margin-right:0}}\n"
    "</style>\n";

void et_report_page_begin(et_report_page *page, const char *title)
{
    *page = (et_report_page){ .section = false };
    et_strbuf_append(&page->html, head);
    et_strbuf_append(&page->html, "<title>");
    et_markup_append(&page->html, title);
    et_strbuf_append(&page->html, "</title>\n");
    et_strbuf_append(&page->html, style);
    et_strbuf_append(&page->html, "</head>\n<body>\n<h1>");
    et_markup_append(&page->html, title);
    et_strbuf_append(&page->html, "</h1>\n");
}

static void end_facts(et_report_page *page)
{
    et_strbuf_append(&page->html, page->facts ? "</dl>\n" : "");
    page->facts = false;
}

static void append_element(et_report_page *page, const char *name, const char *text)
{
    et_strbuf_printf(&page->html, "<%s>", name);
    et_markup_append(&page->html, text);
    et_strbuf_printf(&page->html, "</%s>\n", name);
}

void et_report_page_section(et_report_page *page, const char *title)
{
    end_facts(page);
    et_strbuf_append(&page->html, page->section ? "</section>\n<section>\n" : "<section>\n");
    append_element(page, "h2", title);
    page->section = true;
}

void et_report_page_fact(et_report_page *page, const char *name, const char *format, ...)
{
    et_strbuf text = ET_STRBUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    et_strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    et_strbuf_append(&page->html, page->facts ? "" : "<dl>\n");
    page->facts = true;
    append_element(page, "dt", name);
    append_element(page, "dd", et_strbuf_text(&text));
    page->html.failed |= text.failed;
    et_strbuf_release(&text);
}

void et_report_page_text(et_report_page *page, const char *format, ...)
{
    et_strbuf text = ET_STRBUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    et_strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    end_facts(page);
    append_element(page, "p", et_strbuf_text(&text));
    page->html.failed |= text.failed;
    et_strbuf_release(&text);
}

/* Line by line, because what is escaped is made plain first. */
static void append_lines(et_report_page *page, const char *text)
{
    et_strbuf line = ET_STRBUF_INIT;
    et_strbuf_append(&page->html, "<pre>");
    while (*text) {
        const size_t length = strcspn(text, "\n");
        et_strbuf_reset(&line);
        et_strbuf_append_bytes(&line, text, length);
        et_markup_append(&page->html, et_strbuf_text(&line));
        et_strbuf_append_char(&page->html, '\n');
        text += length + (text[length] == '\n');
    }
    et_strbuf_append(&page->html, "</pre>\n");
    page->html.failed |= line.failed;
    et_strbuf_release(&line);
}

void et_report_page_lines(et_report_page *page, const char *text)
{
    end_facts(page);
    append_lines(page, text);
}

void et_report_page_details(et_report_page *page, const char *title, const char *text)
{
    end_facts(page);
    et_strbuf_append(&page->html, "<details>");
    append_element(page, "summary", title);
    append_lines(page, text);
    et_strbuf_append(&page->html, "</details>\n");
}

void et_report_page_grid(et_report_page *page, const et_grid *grid)
{
    end_facts(page);
    et_grid_append(grid, ET_GRID_HTML, &page->html);
}

static bool has_point(const et_chart *chart)
{
    for (size_t i = 0; i < chart->count; i++)
        if (chart->curves[i].count)
            return true;
    return false;
}

int et_report_page_chart(et_report_page *page, const et_chart *chart, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    end_facts(page);
    int status = has_point(chart)
                     ? et_chart_svg(&page->html, chart, CHART_WIDTH, CHART_HEIGHT, &reason)
                     : ET_OK;
    return status == ET_EDATA || !status ? ET_OK : et_fail(error, status, "%s", reason.text);
}

int et_report_page_bars(et_report_page *page, const et_chart_bars *bars, et_error *error)
{
    end_facts(page);
    return bars->count ? et_chart_bars_svg(&page->html, bars, CHART_WIDTH, error) : ET_OK;
}

void et_report_page_end(et_report_page *page)
{
    end_facts(page);
    et_strbuf_append(&page->html, page->section ? "</section>\n" : "");
    et_strbuf_append(&page->html, "</body>\n</html>\n");
}
