/* The report of a run: where the time goes before and after, what each search found, and Amdahl's
 * estimate beside what the whole model measured. */
#ifndef AK_REPORT_H
#define AK_REPORT_H

#include <stdio.h>

#include "run.h"

/* The speedup over the opponent of every trial, and the best so far, by gnuplot. 1 if no gnuplot
 * is there (nothing is written), -1 on failure. */
int ak_report_plot(const struct ak_run *r, const char *png_path, struct ak_err *err);

/* One page that needs no other file; png_path may be NULL. verify is verify.json. */
int ak_report_html(const struct ak_run *r, const cJSON *verify, const char *png_path, FILE *f, struct ak_err *err);

#endif
