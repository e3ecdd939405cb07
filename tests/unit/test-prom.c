/* SPDX-License-Identifier: BSD-3-Clause */
/* test-prom.c - check the text of a page of metrics, byte by byte. */

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/prom.h"

static struct fp_prom page;

static int
setup (void **state)
{
  (void) state;
  memset (&page, 0, sizeof page);
  page.family = "f";
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  free (page.text);
  return 0;
}

static void
assert_page (const char *text)
{
  assert_true (fp_prom_ok (&page));
  assert_int_equal (page.used, strlen (text));
  assert_memory_equal (page.text, text, page.used);
}

static void
test_values (void **state)
{
  (void) state;
  fp_prom_family (&page, "x_total", FP_PROM_COUNTER, "All of them.");
  fp_prom_value (&page, 0, NULL);
  fp_prom_value (&page, UINT64_MAX, FP_LABELS ({ "a", "1" }, { "b", "" }));
  fp_prom_family (&page, "t_seconds", FP_PROM_GAUGE, "How long.");
  fp_prom_ns (&page, 0, NULL);
  fp_prom_ns (&page, 1, NULL);
  fp_prom_ns (&page, 1500000000, NULL);
  fp_prom_ns (&page, 20000000000, NULL);
  assert_page ("# HELP x_total All of them.\n# TYPE x_total counter\n"
               "x_total 0\n"
               "x_total{a=\"1\",b=\"\"} 18446744073709551615\n"
               "# HELP t_seconds How long.\n# TYPE t_seconds gauge\n"
               "t_seconds 0\nt_seconds 0.000000001\nt_seconds 1.5\n"
               "t_seconds 20\n");
}

static void
test_states (void **state)
{
  static const char *const names[] = { "up", "down" };

  (void) state;
  fp_prom_states (&page, names, 2, 1,
                  FP_LABELS ({ "server", "a" }, { "state", NULL }));
  assert_page ("f{server=\"a\",state=\"up\"} 0\n"
               "f{server=\"a\",state=\"down\"} 1\n");
}

/* No label ends the value or the line, and each comes out as UTF-8. */
static void
test_escapes (void **state)
{
  static const struct {
    const char *value, *text;
  } table[] = {
    { "a\"} 1\nb", "a\\\"} 1\\nb" },
    { "back\\slash\\", "back\\\\slash\\\\" },
    { "\r\t\x7f", "???" },
    { "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xa7",
      "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xa7" },
    { "\xff\xfe", "??" },
    { "\xc3", "?" },                /* cut off */
    { "\xe2\x82", "??" },           /* cut off */
    { "\xc3\"", "?\\\"" },          /* the quote is not swallowed */
    { "\xc0\xaf", "??" },           /* overlong encoding */
    { "\xe0\x80\xaf", "???" },      /* overlong encoding */
    { "\xed\xa0\x80", "???" },      /* half a surrogate pair */
    { "\xf4\x90\x80\x80", "????" }, /* beyond the last code point */
  };

  (void) state;
  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
    char text[128];

    page.used = 0;
    fp_prom_value (&page, 1, FP_LABELS ({ "l", table[i].value }));
    snprintf (text, sizeof text, "f{l=\"%s\"} 1\n", table[i].text);
    assert_page (text);
  }
}

/* Return the value of the sample that begins with name. */
static uint64_t
sample (const char *name)
{
  char *text = strndup (page.text, page.used), *at;
  uint64_t n;

  assert_non_null (text);
  at = strstr (text, name);
  assert_non_null (at);
  n = strtoull (at + strlen (name), NULL, 10);
  free (text);
  return n;
}

static void
test_hist (void **state)
{
  static struct fp_hist h;
  unsigned lines = 0;
  uint64_t last = 0;

  (void) state;
  fp_hist_add (&h, 0);
  fp_hist_add (&h, 1023);
  fp_hist_add (&h, 1024);
  fp_hist_add (&h, 1535);
  fp_hist_add (&h, 3000);
  fp_hist_add (&h, UINT64_C (17) << 30);
  fp_hist_add (&h, UINT64_C (100000000000));
  fp_prom_hist (&page, &h, FP_LABELS ({ "volume", "v" }));
  assert_int_equal (sample ("f_bucket{volume=\"v\",le=\"0.000001024\"} "), 2);
  assert_int_equal (sample ("f_bucket{volume=\"v\",le=\"0.000001536\"} "), 4);
  assert_int_equal (sample ("f_bucket{volume=\"v\",le=\"0.000002048\"} "), 4);
  assert_int_equal (sample ("f_bucket{volume=\"v\",le=\"0.000003072\"} "), 5);
  assert_int_equal (sample ("f_bucket{volume=\"v\",le=\"17.179869184\"} "), 5);
  assert_int_equal (sample ("f_bucket{volume=\"v\",le=\"+Inf\"} "), 7);
  assert_int_equal (sample ("f_count{volume=\"v\"} "), 7);
  assert_int_equal (sample ("f_sum{volume=\"v\"} "), 118);
  for (size_t i = 0; i < page.used; i++)
    lines += page.text[i] == '\n';
  assert_int_equal (lines, 52);

  /* Buckets only rise.  The same holds without labels. */
  page.used = 0;
  fp_prom_hist (&page, &h, NULL);
  for (char *s = page.text; s < page.text + page.used;) {
    char *end = memchr (s, '\n', page.used - (size_t) (s - page.text));

    assert_non_null (end);
    if (strncmp (s, "f_bucket{le=\"", 13) == 0) {
      uint64_t n = strtoull (strstr (s, "} ") + 2, NULL, 10);

      assert_true (n >= last);
      last = n;
    }
    s = end + 1;
  }
  assert_int_equal (last, 7);
  assert_int_equal (sample ("f_count "), 7);
}

/* Three pages become one.  Each family is there once, in the order of the
 * first page that has it.
 */
static void
test_join (void **state)
{
  static const char first[] = "# HELP a All {of} it.\n# TYPE a counter\n"
                              "a 1\n"
                              "a{} 2\n"
                              "# HELP h Time.\n# TYPE h histogram\n"
                              "h_bucket{op=\"x y}\",le=\"+Inf\"} 3\n"
                              "h_sum 0.5\nh_count 3\n";
  static const char second[] = "# HELP b Other.\n# TYPE b gauge\n"
                               "b 4\n"
                               "# HELP ab Not a.\n# TYPE ab gauge\nab 5\n"
                               "# HELP a Ours.\n# TYPE a counter\na 6";
  const struct fp_prom_part parts[] = {
    { .text = first, .labels = FP_LABELS ({ "d", "/dev/0" }, { "v", "\"" }) },
    { .text = "", .labels = NULL },
    { .text = second, .labels = NULL },
  };

  (void) state;
  fp_prom_join (&page, parts, 3);
  assert_page ("# HELP a All {of} it.\n# TYPE a counter\n"
               "a{d=\"/dev/0\",v=\"\\\"\"} 1\n"
               "a{d=\"/dev/0\",v=\"\\\"\"} 2\n"
               "a 6\n"
               "# HELP h Time.\n# TYPE h histogram\n"
               "h_bucket{d=\"/dev/0\",v=\"\\\"\",op=\"x y}\",le=\"+Inf\"} 3\n"
               "h_sum{d=\"/dev/0\",v=\"\\\"\"} 0.5\n"
               "h_count{d=\"/dev/0\",v=\"\\\"\"} 3\n"
               "# HELP b Other.\n# TYPE b gauge\nb 4\n"
               "# HELP ab Not a.\n# TYPE ab gauge\nab 5\n");
}

static void
test_too_large (void **state)
{
  static char value[100000];

  (void) state;
  memset (value, 'x', sizeof value - 1);
  for (unsigned i = 0; i < 400; i++)
    fp_prom_value (&page, 1, FP_LABELS ({ "l", value }));
  assert_false (fp_prom_ok (&page));
  assert_true (page.room <= FP_PROM_MAX);
  fp_prom_hist (&page, &(struct fp_hist) { .sum = 0 }, NULL);
  assert_false (fp_prom_ok (&page));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_values, setup, teardown),
    cmocka_unit_test_setup_teardown (test_states, setup, teardown),
    cmocka_unit_test_setup_teardown (test_escapes, setup, teardown),
    cmocka_unit_test_setup_teardown (test_hist, setup, teardown),
    cmocka_unit_test_setup_teardown (test_join, setup, teardown),
    cmocka_unit_test_setup_teardown (test_too_large, setup, teardown),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
