/* The sandbox against code that means harm, and data to Lua and back. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "json.h"
#include "mem.h"
#include "rules.h"
#include "tap.h"

static char dir[] = "/tmp/rules.XXXXXX";
static struct ak_err err;

static void write_file(const char *name, const char *text) {
    char *path = ak_path_join(dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) printf("Bail out! cannot write %s\n", path), exit(1);
    free(path);
}

static struct ak_rules *open_file(const char *name) {
    char *path = ak_path_join(dir, name);
    struct ak_rules *r = ak_rules_open(path, &err);
    free(path);
    return r;
}

/* f(arg) of a module whose text is `text`, as JSON text; the error's message, after "E ", if there is one. */
static char *run(const char *text, const char *arg) {
    err = (struct ak_err){0};
    write_file("rule.lua", text);
    struct ak_rules *r = open_file("rule.lua");
    cJSON *a = cJSON_Parse(arg), *v = r ? ak_rules_call(r, "f", a, &err) : NULL;
    char *result = v ? cJSON_PrintUnformatted(v) : ak_asprintf("E %s", err.msg);
    cJSON_Delete(a);
    cJSON_Delete(v);
    ak_rules_close(r);
    return result;
}

static void is(const char *body, const char *arg, const char *want) {
    char *text = ak_asprintf("local M = {}\nfunction M.f(a) %s end\nreturn M\n", body), *got = run(text, arg);
    ok(strcmp(got, want) == 0, "%.60s of %s is %s", body, arg, want);
    if (strcmp(got, want)) printf("# got %s\n", got);
    free(got);
    free(text);
}

/* On one line, as TAP wants it. */
static const char *flat(const char *s) {
    static char line[80];
    snprintf(line, sizeof line, "%s", s + strspn(s, "\n"));
    for (char *p = line; *p; p++)
        if (*p == '\n') *p = ' ';
    return line;
}

static void refused(const char *body, const char *fragment) {
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    char *text = ak_asprintf("local M = {}\nfunction M.f(a)\n%s\nend\nreturn M\n", body), *got = run(text, "{}");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    bool good = got[0] == 'E' && strstr(got, fragment) && strstr(got, "rule.lua") && err.code == AK_EXIT_INPUT;
    bool soon = b.tv_sec - a.tv_sec < 60;
    ok(good && soon, "%s: %s", flat(body), fragment);
    if (!good) printf("# got %.200s\n", got);
    free(got);
    free(text);
}

/* ---- what may not be reached ---- */

static void globals(void) {
    static const char *const none[] = {"io", "os", "debug", "package", "load", "loadstring", "loadfile", "dofile", "collectgarbage", "coroutine",
                                       "utf8", "_G", "string.dump", "math.randomseed"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char *body = ak_asprintf("return type(%s)", none[i]);
        is(body, "{}", "\"nil\"");
        free(body);
    }
    is("return getmetatable('').__index == string and ('x').dump == nil", "{}", "true");
    refused("return load('return io.open')()", "global 'load'");
    refused("return require '../rule'", "is not the name of a module");
    refused("return require '/etc/passwd'", "is not the name of a module");
    refused("return require 'rule\\0x'", "is not the name of a module");
    refused("return require 'nowhere'", "nowhere.lua");
    refused("return ('x'):rep(10):bad()", "rule.lua:3:");
}

static void limits(void) {
    refused("return ('x'):rep(1e9)", "wants more than");
    refused("return ('x'):rep(1e9, 'y')", "wants more than");
    refused("\n\nwhile true do end", "rule.lua:5: runs for too");
    refused("while true do pcall(function() while true do end end) end", "runs for too");
    refused("local t = {} while true do t[#t + 1] = t end", "wants more than");
    refused("local t = {} while true do t[#t + 1] = ('x'):rep(1 << 24) .. #t end", "wants more than");
    refused("local s = ('x'):rep(1 << 26) while true do s:find('y', 1, true) end", "runs for too");
    refused("return ('a'):rep(64):find(('a*'):rep(20) .. 'b')", "repetitions");
    refused("return ('a'):rep(1000000):find('a*a*b')", "repetitions");
    refused("return ('a'):rep(1000000):gsub('[ab]-[%]a]-c', '')", "repetitions");
    refused("return table.move({}, 1, 1 << 60, 1)", "elements to move");
    refused("return table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 0)", "__len");
    refused("local m = {} local t = setmetatable({}, m) m.__len = function() return 1 << 60 end table.remove(t, 1)", "__len");
    refused("setmetatable({}, {__gc = function() while true do end end})", "__gc");
    refused("local function f() return f() + 1 end return f()", "stack overflow");
    refused("local t <close> = setmetatable({}, {__close = function() while true do end end}) error('x')", "runs for too");
    is("return #('x'):rep(1000) + #(''):rep(1 << 60)", "{}", "1000");
    is("return ('  two words '):match('^%s*(.-)%s*$')", "{}", "\"two words\"");
    is("return #('a'):rep(100000):gsub('a', 'b')", "{}", "100000");
}

/* ---- what is as expected ---- */

static void same_answer(void) {
    is("local k = {} for key in pairs(a) do k[#k + 1] = key end return table.concat(k, ' ')", "{\"b\":1,\"10\":1,\"a\":1,\"9\":1,\"c\":1}", "\"10 9 a b c\"");
    is("local t, k = {[true] = 1, [3] = 1, [-1] = 1, [2.5] = 1, x = 1, [false] = 1}, {} for key in pairs(t) do k[#k + 1] = tostring(key) end "
       "return table.concat(k, ' ')", "{}", "\"false true -1 2.5 3 x\"");
    is("local n = 0 for k in pairs(a) do a.x, a.y, a.z = nil, nil, nil n = n + 1 end return n", "{\"x\":1,\"y\":2,\"z\":3}", "1");
    is("local k, v = next(a) local l = next(a, k) return {k, v, l, next(a, l) == nil}", "{\"z\":5,\"y\":4}", "[\"y\",4,\"z\",true]");
    refused("for k in pairs({[{}] = 1}) do end", "differs from run to run");
    char *text = "local M = {}\nfunction M.f() return {math.random(1 << 40), math.random(), math.random(9)} end\nreturn M\n", *one = run(text, "{}"), *two;
    struct ak_rules *r = open_file("rule.lua");
    cJSON *arg = cJSON_CreateObject(), *v, *w;
    v = ak_rules_call(r, "f", arg, &err);
    w = ak_rules_call(r, "f", arg, &err);
    two = cJSON_PrintUnformatted(w);
    ok(cJSON_Compare(v, w, true) && strcmp(one, two) == 0, "random numbers are the same in every call: %s", one);
    cJSON_Delete(v);
    cJSON_Delete(w);
    cJSON_Delete(arg);
    ak_rules_close(r);
    free(one);
    free(two);
}

static void modules(void) {
    write_file("one.lua", "return {n = 1, two = require 'two'}\n");
    write_file("two.lua", "return {n = 2}\n");
    write_file("loop.lua", "return require 'pool'\n");
    write_file("pool.lua", "return require 'loop'\n");
    write_file("nothing.lua", "local x\n");
    write_file("broken.lua", "local t = {\n\nx = = 2}\n");
    is("return require('one').two.n + require('two').n", "{}", "4");
    is("return require('one') == require('one')", "{}", "true");
    refused("return require 'loop'", "requires itself");
    refused("return require 'nothing'", "returns nothing");
    refused("return require 'broken'", "broken.lua:3:");
    ok(!open_file("broken.lua") && strstr(err.msg, "broken.lua:3:") && err.code == AK_EXIT_INPUT, "a syntax error has its line");
    ok(!open_file("nothing.lua") && strstr(err.msg, "returns no table"), "a module must return a table");
    ok(!open_file("absent.lua") && strstr(err.msg, "absent.lua"), "a file that is not there");
    char *got = run("return {f = function(a)\n local t = a.x\n return t.y end}", "{}");
    ok(strstr(got, "rule.lua:3:") && strstr(got, "local 't'") && strstr(got, "traceback"), "an error has file, line and traceback");
    free(got);
    write_file("rule.lua", "\033Lua");
    ok(!open_file("rule.lua"), "bytecode is not loaded");
}

static void data(void) {
    static const char *const same[] = {
        "{\"a\":{\"b\":[1,2.5,-3,true,false,\"x\",[],{}]},\"c\":\"\"}", "[]", "{}", "[[]]", "9223372036854775807", "-9223372036854775808", "0.1",
        "9007199254740991", "1e+300", "[1,null,3]", "\"é\"", "{\"x\":[null,null,2]}"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        is("return a", same[i], same[i]);
    is("return math.type(a.i) .. math.type(a.j) .. math.type(a.k)", "{\"i\":3,\"j\":2.0,\"k\":2.5}", "\"integerintegerfloat\"");
    is("return a.x == nil", "{\"x\":null}", "true");
    is("return {1 << 53, (1 << 53) + 1, math.maxinteger, math.mininteger}", "{}", "[9007199254740992,9007199254740993,9223372036854775807,-9223372036854775808]");
    is("return {1 / 0, -1 / 0, 0 / 0 ~= 0 / 0, -(0 / 0)}", "{}", "[\"Infinity\",\"-Infinity\",true,\"NaN\"]");
    is("return {{}, array{}, array{1}, array()}", "{}", "[{},[],[1],[]]");
    is("return {c = 1, b = 2, a = {z = 1, y = 2}}", "{}", "{\"a\":{\"y\":2,\"z\":1},\"b\":2,\"c\":1}");
    is("return nil", "{}", "null");
    refused("return {groups = {1, {dims = print}}}", "'groups[2].dims' of what 'f' gives is a function");
    refused("return {[1] = {x = {y = {print}}}}", "'[1].x.y[1]' of what");
    refused("return print", "what 'f' gives is a function");
    refused("local t = {} t.t = t return t", "or holds itself");
    refused("local t = {} for i = 1, 60 do t = {t, t} end return t", "more than can be");
    refused("return {x = {1, 2, y = 3}}", "'x' of what 'f' gives is a list with other keys too");
    refused("return {[0.5] = 1}", "a key that is a number");
    refused("return 'a\\0b'", "a zero byte");
    refused("return {['a\\0b'] = 1}", "a zero byte");
}

static void fields(void) {
    write_file("rule.lua", "return {about = {1, 2}, f = function() end, bad = {f = print}}\n");
    struct ak_rules *r = open_file("rule.lua");
    cJSON *v = ak_rules_field(r, "about", &err), *arg = cJSON_CreateObject();
    ok(cJSON_GetArraySize(v) == 2, "a field of a module");
    cJSON_Delete(v);
    ok(!ak_rules_field(r, "nothing", &err) && strstr(err.msg, "no field 'nothing'"), "a field that is not there");
    ok(!ak_rules_field(r, "bad", &err) && strstr(err.msg, "'f' of what 'bad'"), "a field that holds a function");
    ok(!ak_rules_call(r, "about", arg, &err) && strstr(err.msg, "no function 'about'"), "a function that is not there");
    v = ak_rules_call(r, "f", arg, &err);
    ok(cJSON_IsNull(v), "after errors a rule still works");
    cJSON_Delete(v);
    cJSON_Delete(arg);
    ak_rules_close(r);
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    globals();
    limits();
    same_answer();
    modules();
    data();
    fields();
    char *cmd = ak_asprintf("rm -rf '%s'", dir);
    if (system(cmd)) perror(cmd);
    free(cmd);
    return done();
}
