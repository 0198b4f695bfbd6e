#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "html.h"
#include "json.h"
#include "mem.h"

static bool is(const char *a, const char *b) { return a && strcmp(a, b) == 0; }

/* ---- progress.png ---- */

/* gnuplot data: a block a spec, "trial speedup best" a line. */
static size_t write_series(const struct ak_run *r, FILE *f) {
    size_t series = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct ak_trials *t = &r->specs[i].trials;
        double best = 0;
        size_t n = 0;
        for (size_t k = 0; k < t->n; k++) {
            const struct ak_trial *trial = &t->trials[k];
            double s = trial->facts ? ak_json_number(ak_json_get(trial->facts, "vs_opponent"), "speedup") : ak_json_number(NULL, "");
            if (!(s > 0)) continue;
            if (is(trial->decision, "keep") || is(trial->decision, "start")) best = s;
            if (n++ == 0) fprintf(f, "\"%s\"\n", r->specs[i].name);
            fprintf(f, "%zu %g %g\n", k + 1, s, best);
        }
        if (n) fputs("\n\n", f);
        series += n > 0;
    }
    return series;
}

static void write_script(size_t series, const char *data, const char *png, FILE *f) {
    fprintf(f, "set terminal pngcairo size 1000,500 font 'sans,10'\nset output '%s'\n", png);
    fputs("set xlabel 'trial'\nset ylabel 'speedup over the opponent'\nset key outside noenhanced\nset grid\nset xrange [0:*]\nset yrange [0:*]\n"
          "set arrow from graph 0, first 1 to graph 1, first 1 nohead dashtype 2\nplot ", f);
    for (size_t s = 0; s < series; s++)
        fprintf(f, "%s'%s' index %zu using 1:2 with points pt 7 ps 0.4 lc %zu notitle, '' index %zu using 1:3 with steps lw 2 lc %zu title columnheader(1)",
                s ? ", " : "", data, s, s + 1, s, s + 1);
    fputc('\n', f);
}

/* Runs gnuplot on a script; 1 if there is none. */
static int run_gnuplot(const char *script, struct ak_err *err) {
    pid_t pid = fork();
    if (pid < 0) return ak_fail_errno(err, AK_EXIT_IO, "cannot start gnuplot");
    if (pid == 0) {
        execlp("gnuplot", "gnuplot", script, (char *)NULL);
        _exit(127);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return 1;
    return status == 0 ? 0 : ak_fail(err, AK_EXIT_IO, "gnuplot could not draw the progress");
}

static FILE *temporary(char *path, struct ak_err *err) {
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) ak_fail_errno(err, AK_EXIT_IO, "cannot write '%s'", path);
    return f;
}

int ak_report_plot(const struct ak_run *r, const char *png_path, struct ak_err *err) {
    char data[] = "/tmp/ak-report-data-XXXXXX", script[] = "/tmp/ak-report-plot-XXXXXX";
    char *next = ak_asprintf("%s.new", png_path);
    FILE *d = temporary(data, err), *s = d ? temporary(script, err) : NULL;
    int rc = -1;
    if (s) {
        size_t series = write_series(r, d);
        write_script(series, data, next, s);
        fflush(d);
        fflush(s);
        rc = series ? run_gnuplot(script, err) : 1;
        if (rc == 0 && rename(next, png_path)) rc = ak_fail_errno(err, AK_EXIT_IO, "cannot write '%s'", png_path);
    }
    if (d) fclose(d);
    if (s) fclose(s);
    unlink(data);
    if (s) unlink(script);
    free(next);
    return rc;
}

/* ---- report.html ---- */

static const char style[] =
    "body{font:14px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}h1{font-size:1.6em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}.bar{display:inline-block;height:.8em;background:#888}.after{background:#2a7}"
    ".big{font-size:1.3em}.no{color:#b00}.small{color:#666;font-size:.9em}details{margin:.3em 0}";

static void verdict(const cJSON *v, FILE *f) {
    double s = ak_json_number(v, "speedup");
    if (!cJSON_IsTrue(ak_json_get(v, "match"))) {
        fputs("<p class='big no'>The optimised model does not match: ", f);
        ak_html_text(f, ak_json_string(v, "reason", "an output differs"));
        fputs("</p>\n", f);
    }
    if (s == s)
        fprintf(f, "<p class=big>%.3f&times; faster than the model built from the opponents [%.3f, %.3f]: %.3f ms to %.3f ms, in %.0f pairs of runs.</p>\n",
                s, ak_json_number(v, "speedup_low"), ak_json_number(v, "speedup_high"), ak_json_number(v, "baseline_ms"), ak_json_number(v, "optimized_ms"), ak_json_number(v, "pairs"));
}

static void outputs(const cJSON *v, FILE *f) {
    const cJSON *o;
    fputs("<h2>Outputs against truth</h2>\n<table><tr><th>output<th>scale<th>error before<th>error after<th>allowed<th></tr>\n", f);
    cJSON_ArrayForEach(o, ak_json_get(v, "outputs")) {
        fputs("<tr><td>", f);
        ak_html_text(f, ak_json_string(o, "name", "?"));
        fprintf(f, "<td>%.3g<td>%.3g<td>%.3g<td>%.3g<td>%s</tr>\n", ak_json_number(o, "scale"), ak_json_number(o, "err_base"), ak_json_number(o, "err_opt"), ak_json_number(o, "tol"),
                cJSON_IsTrue(ak_json_get(o, "ok")) ? "ok" : "<span class=no>wrong</span>");
    }
    fputs("</table>\n", f);
}

static void bar(double us, double whole, const char *class, FILE *f) {
    fprintf(f, "<span class='bar %s' style='width:%.1fem'></span>", class, whole > 0 ? 16 * us / whole : 0);
}

static void where_time_goes(const cJSON *v, FILE *f) {
    const cJSON *s;
    double whole = 0;
    cJSON_ArrayForEach(s, ak_json_get(v, "steps")) whole += ak_json_number(s, "baseline_us");
    fputs("<h2>Where the time goes</h2>\n<table><tr><th>step<th>by<th>steps<th>before, &micro;s<th>after, &micro;s<th></tr>\n", f);
    cJSON_ArrayForEach(s, ak_json_get(v, "steps")) {
        double before = ak_json_number(s, "baseline_us"), after = ak_json_number(s, "optimized_us");
        fputs("<tr><td>", f);
        ak_html_text(f, ak_json_string(s, "spec", ak_json_string(s, "what", "?")));
        fprintf(f, "<td>%s<td>%.0f<td>%.1f<td>%.1f<td style='text-align:left'>", ak_json_string(s, "by", "?"), ak_json_number(s, "count"), before, after);
        bar(before, whole, "", f);
        fputs("<br>", f);
        bar(after, whole, "after", f);
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
}

/* The steps by which a search got where it is. */
static void kept_steps(const struct ak_run_spec *s, FILE *f) {
    fputs("<details><summary>", f);
    ak_html_text(f, s->name);
    fputs("</summary><table><tr><th>kept<th>&micro;s<th>over the opponent<th>over the incumbent<th>why</tr>\n", f);
    for (size_t i = 0; i < s->trials.n; i++) {
        const struct ak_trial *t = &s->trials.trials[i];
        if (!is(t->decision, "keep") && !is(t->decision, "start")) continue;
        fputs("<tr><td>", f);
        ak_html_text(f, t->knobs ? ak_json_string(t->knobs, "why", "") : "");
        fprintf(f, "<td>%.1f<td>%.3f&times;", ak_json_number(t->facts, "latency_us"), ak_json_number(ak_json_get(t->facts, "vs_opponent"), "speedup"));
        const cJSON *vs = ak_json_get(t->facts, "vs_incumbent");
        if (cJSON_IsObject(vs) && ak_json_number(vs, "speedup") > 0)
            fprintf(f, "<td>%.3f&times; [%.3f, %.3f]<td>", ak_json_number(vs, "speedup"), ak_json_number(vs, "low"), ak_json_number(vs, "high"));
        else
            fputs("<td>-<td>", f);
        ak_html_text(f, t->why);
        fputs("</tr>\n", f);
    }
    fputs("</table></details>\n", f);
}

static void kernels(const struct ak_run *r, FILE *f) {
    fputs("<h2>Kernels</h2>\n<table><tr><th>spec<th>share<th>calls<th>opponent, &micro;s<th>ours, &micro;s<th>speedup<th>of the floor<th>trials<th>right</tr>\n", f);
    for (size_t i = 0; i < r->n; i++) {
        const struct ak_run_spec *s = &r->specs[i];
        const cJSON *best = ak_run_best(s), *vs = best ? ak_json_get(best, "vs_opponent") : NULL;
        size_t right = 0;
        for (size_t k = 0; k < s->trials.n; k++)
            right += s->trials.trials[k].facts && is(ak_json_string(s->trials.trials[k].facts, "verdict", NULL), "pass");
        if (!s->trials.n) continue;
        fputs("<tr><td>", f);
        ak_html_text(f, s->name);
        fprintf(f, "<td>%.1f%%<td>%.0f<td>%.1f<td>%.1f<td>%.3f&times; [%.3f, %.3f]<td>%.0f%%<td>%zu<td>%zu</tr>\n", 100 * ak_json_number(s->planned, "share"),
                ak_json_number(s->planned, "calls"), ak_json_number(s->planned, "time_us"), ak_json_number(best, "latency_us"), ak_json_number(vs, "speedup"), ak_json_number(vs, "low"),
                ak_json_number(vs, "high"), ak_json_number(best, "pct_floor"), s->trials.n, right);
    }
    fputs("</table>\n", f);
    for (size_t i = 0; i < r->n; i++)
        if (r->specs[i].trials.n) kept_steps(&r->specs[i], f);
}

/* What the parts should make of the whole, beside what it was. */
static void amdahl(const struct ak_run *r, const cJSON *verify, FILE *f) {
    fprintf(f, "<h2>Amdahl's estimate</h2>\n<p>The kernels' own speedups and their shares make %.3f&times; of the whole; measured: %.3f&times;.</p>\n",
            ak_json_number(r->plan, "model_us") / ak_run_amdahl_us(r), ak_json_number(verify, "speedup"));
}

int ak_report_html(const struct ak_run *r, const cJSON *verify, const char *png_path, FILE *f, struct ak_err *err) {
    const char *model = ak_json_string(r->plan, "model", "?");
    fputs("<!DOCTYPE html><html lang=en><meta charset=utf-8><title>AutoKernel: ", f);
    ak_html_text(f, model);
    fprintf(f, "</title><style>%s</style>\n<h1>", style);
    ak_html_text(f, model);
    fputs("</h1>\n", f);
    verdict(verify, f);
    where_time_goes(verify, f);
    if (png_path) {
        fputs("<h2>Progress</h2>\n<img alt='speedup over the opponent by trial' src='", f);
        if (ak_html_embed_png(f, png_path, err)) return -1;
        fputs("'>\n", f);
    }
    kernels(r, f);
    amdahl(r, verify, f);
    outputs(verify, f);
    const cJSON *host = ak_json_get(verify, "host");
    fputs("<p class=small>Measured on ", f);
    ak_html_text(f, ak_json_string(host, "cpu", "an unknown processor"));
    fprintf(f, ", %.0f cores, %s.</p></html>\n", ak_json_number(host, "cores"), ak_json_string(host, "time", ""));
    return 0;
}
