/* SPDX-License-Identifier: BSD-3-Clause */
/* prom.c - a page of metrics in the text format of Prometheus. */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "metrics/prom.h"

#define FIRST_ROOM 16384
#define NS_PER_S UINT64_C (1000000000)
/* Bounds of the buckets, as exponents of 2, in nanoseconds. */
#define BUCKET_FIRST 10
#define BUCKET_LAST 34

/* Return room for bytes more at the end of the page, or NULL. */
static char *
more (struct fp_prom *p, size_t bytes)
{
  size_t room = p->room != 0 ? p->room : FIRST_ROOM;
  char *text;

  if (p->failed || bytes > FP_PROM_MAX - p->used) {
    p->failed = true;
    return NULL;
  }
  while (room < p->used + bytes)
    room *= 2;
  if (room != p->room) {
    text = realloc (p->text, room);
    if (text == NULL) {
      p->failed = true;
      return NULL;
    }
    p->text = text;
    p->room = room;
  }
  return p->text + p->used;
}

static void
put (struct fp_prom *p, const char *s, size_t length)
{
  char *to = more (p, length);

  if (to == NULL)
    return;
  memcpy (to, s, length);
  p->used += length;
}

static void
put_str (struct fp_prom *p, const char *s)
{
  put (p, s, strlen (s));
}

/* Print a short text, such as a number. */
static void __attribute__ ((__format__ (__printf__, 2, 3)))
print (struct fp_prom *p, const char *fmt, ...)
{
  char line[64];
  va_list args;
  int n;

  va_start (args, fmt);
  n = vsnprintf (line, sizeof line, fmt, args);
  va_end (args);
  if (n < 0 || (size_t) n >= sizeof line)
    p->failed = true;
  else
    put (p, line, (size_t) n);
}

/* Print seconds as digits and a point.  printf of a double would depend on the
 * locale.
 */
static void
put_seconds (struct fp_prom *p, uint64_t ns)
{
  char fraction[16];
  int n = snprintf (fraction, sizeof fraction, "%09" PRIu64, ns % NS_PER_S);

  print (p, "%" PRIu64, ns / NS_PER_S);
  while (n > 0 && fraction[n - 1] == '0')
    n--;
  if (n > 0) {
    put_str (p, ".");
    put (p, fraction, (size_t) n);
  }
}

/* Return the length of the UTF-8 character at s, or 0 if it is invalid. */
static size_t
utf8_length (const char *s)
{
  const unsigned char *u = (const unsigned char *) s;
  uint32_t c;
  size_t n;

  if (u[0] < 0x80)
    return 1;
  n = u[0] < 0xc2   ? 0
      : u[0] < 0xe0 ? 2
      : u[0] < 0xf0 ? 3
      : u[0] < 0xf5 ? 4
                    : 0;
  if (n == 0)
    return 0;
  c = u[0] & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((u[i] & 0xc0) != 0x80) /* also true for the NUL at the end */
      return 0;
    c = c << 6 | (u[i] & 0x3f);
  }
  if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) ||
      (c >= 0xd800 && c < 0xe000))
    return 0;
  return n;
}

static void
put_label_value (struct fp_prom *p, const char *s)
{
  while (*s != '\0') {
    size_t n = utf8_length (s);

    if (*s == '\n')
      put (p, "\\n", 2);
    else if (*s == '"' || *s == '\\') {
      put (p, "\\", 1);
      put (p, s, 1);
    }
    else if (n == 0 || (n == 1 && (*s < ' ' || *s == 0x7f)))
      put (p, "?", 1);
    else
      put (p, s, n);
    s += n != 0 ? n : 1;
  }
}

/* Begin a sample with its labels.  A label without a value gets more_value. */
static void
begin_sample (struct fp_prom *p, const char *suffix,
              const struct fp_prom_label *labels, const char *more_value)
{
  char open = '{';

  put_str (p, p->family);
  put_str (p, suffix);
  for (; labels != NULL && labels->name != NULL; labels++) {
    const char *value = labels->value != NULL ? labels->value : more_value;

    put (p, &open, 1);
    open = ',';
    put_str (p, labels->name);
    put_str (p, "=\"");
    put_label_value (p, value != NULL ? value : "");
    put_str (p, "\"");
  }
  put_str (p, open == ',' ? "} " : " ");
}

void
fp_prom_family (struct fp_prom *p, const char *name, enum fp_prom_type type,
                const char *help)
{
  static const char *const types[] = { [FP_PROM_COUNTER] = "counter",
                                       [FP_PROM_GAUGE] = "gauge",
                                       [FP_PROM_HISTOGRAM] = "histogram" };
  const char *const words[] = { "# HELP ", name,        " ",
                                help,      "\n# TYPE ", name,
                                " ",       types[type], "\n" };

  p->family = name;
  for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
    put_str (p, words[i]);
}

void
fp_prom_value (struct fp_prom *p, uint64_t value,
               const struct fp_prom_label *labels)
{
  begin_sample (p, "", labels, NULL);
  print (p, "%" PRIu64 "\n", value);
}

void
fp_prom_ns (struct fp_prom *p, uint64_t ns, const struct fp_prom_label *labels)
{
  begin_sample (p, "", labels, NULL);
  put_seconds (p, ns);
  put_str (p, "\n");
}

void
fp_prom_states (struct fp_prom *p, const char *const *names, unsigned nr,
                unsigned is, const struct fp_prom_label *labels)
{
  for (unsigned i = 0; i < nr; i++) {
    if (names[i] == NULL)
      continue;
    begin_sample (p, "", labels, names[i]);
    put_str (p, i == is ? "1\n" : "0\n");
  }
}

/* Begin the sample of a bucket, with its labels and le. */
static void
begin_bucket (struct fp_prom *p, const struct fp_prom_label *labels)
{
  begin_sample (p, "_bucket", labels, NULL);
  p->used -= p->failed ? 0 : 1; /* remove the blank */
  if (!p->failed && p->text[p->used - 1] == '}') {
    p->used--;
    put_str (p, ",le=\"");
  }
  else
    put_str (p, "{le=\"");
}

static void
put_bucket (struct fp_prom *p, const struct fp_hist *h, uint64_t bound,
            const struct fp_prom_label *labels)
{
  begin_bucket (p, labels);
  put_seconds (p, bound);
  print (p, "\"} %" PRIu64 "\n", fp_hist_below (h, bound));
}

void
fp_prom_hist (struct fp_prom *p, const struct fp_hist *h,
              const struct fp_prom_label *labels)
{
  uint64_t all = fp_hist_below (h, UINT64_MAX);

  for (unsigned e = BUCKET_FIRST; e < BUCKET_LAST; e++) {
    put_bucket (p, h, UINT64_C (2) << (e - 1), labels);
    put_bucket (p, h, UINT64_C (3) << (e - 1), labels);
  }
  put_bucket (p, h, UINT64_C (1) << BUCKET_LAST, labels);
  begin_bucket (p, labels);
  print (p, "+Inf\"} %" PRIu64 "\n", all);
  begin_sample (p, "_sum", labels, NULL);
  put_seconds (p, fp_hist_sum (h));
  put_str (p, "\n");
  begin_sample (p, "_count", labels, NULL);
  print (p, "%" PRIu64 "\n", all);
}

/* ---- joining pages ---- */

static const char help_mark[] = "# HELP ";
#define HELP_MARK (sizeof help_mark - 1)

/* A family in the page of a part: from its "# HELP" line to the next one, or
 * to the end.
 */
struct family {
  const char *name, *end;
  size_t name_length;
  bool printed;
};

struct families {
  struct family *list;
  size_t nr;
};

/* Return the next line that begins with "# HELP ", or the end of the page. */
static const char *
next_help (const char *s)
{
  while (*s != '\0' && strncmp (s, help_mark, HELP_MARK) != 0) {
    const char *nl = strchr (s, '\n');

    s = nl != NULL ? nl + 1 : s + strlen (s);
  }
  return s;
}

static int
find_families (struct families *f, const char *text)
{
  for (const char *s = next_help (text); *s != '\0';) {
    struct family *list = realloc (f->list, (f->nr + 1) * sizeof *list);
    const char *end = next_help (s + HELP_MARK);

    if (list == NULL)
      return -1;
    f->list = list;
    s += HELP_MARK;
    list[f->nr++] = (struct family) { .name = s,
                                      .name_length = strcspn (s, " \n"),
                                      .end = end };
    s = end;
  }
  return 0;
}

/* Print the sample of a line, with labels added. */
static void
put_sample (struct fp_prom *p, const char *line, size_t length,
            const struct fp_prom_label *labels)
{
  size_t name = strcspn (line, "{ \n");
  bool has_labels = line[name] == '{';

  put (p, line, name);
  for (const struct fp_prom_label *l = labels; l != NULL && l->name != NULL;
       l++) {
    put_str (p, l == labels ? "{" : ",");
    put_str (p, l->name);
    put_str (p, "=\"");
    put_label_value (p, l->value);
    put_str (p, "\"");
  }
  if (labels == NULL || labels->name == NULL)
    ;
  else if (!has_labels)
    put_str (p, "}");
  else if (line[++name] != '}')
    put_str (p, ",");
  put (p, line + name, length - name);
}

/* Print the comments of a family, or else its samples with labels added. */
static void
put_lines (struct fp_prom *p, const struct family *f, bool comments,
           const struct fp_prom_label *labels)
{
  const char *s = f->name - HELP_MARK;

  while (s < f->end) {
    size_t length = strcspn (s, "\n");

    length += s[length] == '\n';
    if (s[0] == '#' && comments)
      put (p, s, length);
    else if (s[0] != '#' && s[0] != '\n' && !comments)
      put_sample (p, s, length, labels);
    if (s[length - 1] != '\n')
      put_str (p, "\n");
    s += length;
  }
}

static struct family *
find (struct families *f, const struct family *like)
{
  for (size_t i = 0; i < f->nr; i++)
    if (f->list[i].name_length == like->name_length &&
        memcmp (f->list[i].name, like->name, like->name_length) == 0)
      return &f->list[i];
  return NULL;
}

void
fp_prom_join (struct fp_prom *p, const struct fp_prom_part *parts, unsigned nr)
{
  struct families *of = calloc (nr > 0 ? nr : 1, sizeof *of);

  p->failed = p->failed || of == NULL;
  for (unsigned i = 0; i < nr && !p->failed; i++)
    p->failed = find_families (&of[i], parts[i].text) < 0;
  for (unsigned i = 0; i < nr && !p->failed; i++)
    for (size_t k = 0; k < of[i].nr; k++) {
      if (of[i].list[k].printed)
        continue;
      put_lines (p, &of[i].list[k], true, NULL);
      for (unsigned j = i; j < nr; j++) {
        struct family *f = find (&of[j], &of[i].list[k]);

        if (f == NULL)
          continue;
        put_lines (p, f, false, parts[j].labels);
        f->printed = true;
      }
    }
  for (unsigned i = 0; i < nr && of != NULL; i++)
    free (of[i].list);
  free (of);
}

bool
fp_prom_ok (const struct fp_prom *p)
{
  return !p->failed && p->text != NULL;
}
