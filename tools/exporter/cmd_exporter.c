/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_exporter.c - farpage exporter: serve the metrics of all devices of this
 * machine to Prometheus, over HTTP.  The processes that serve the devices
 * answer only on their own Unix sockets.
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "metrics/scrape.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/state.h"
#include "tools/exporter/pages.h"

static const char help[] =
    "Usage: farpage exporter [OPTION]...\n"
    "\n"
    "Serve the metrics of all attached devices to Prometheus: GET /metrics.\n"
    "\n"
    "      --listen ADDR   HOST:PORT, [V6]:PORT or unix:PATH\n"
    "                      (default: [::]:9472)\n"
    "      --socket PATH   also ask the plugin with this status=PATH, for an\n"
    "                      nbdkit that farpage did not start; repeatable\n"
    "      --once          print the metrics, and exit\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "listen", required_argument, NULL, 'l' },
  { "socket", required_argument, NULL, 's' },
  { "once", no_argument, NULL, 'o' },
  { NULL, 0, NULL, 0 },
};

#define DEFAULT_LISTEN "[::]:9472"
#define NO_IPV6_LISTEN "0.0.0.0:9472"
#define ASK_MS 2000 /* for all; Prometheus' own default limit is 10 s */
#define SOCKETS_MAX 16
#define TARGETS_MAX 256

/* A device, or the socket of a plugin. */
struct target {
  char device[128], volume[128], path[128];
  struct fp_prom_label labels[3];
  bool attached; /* by farpage: st is set */
  struct state st;
  struct swap_area swap;
};

struct exporter {
  struct fp_addr listen;
  bool anywhere; /* listen is the default */
  const char *sockets[SOCKETS_MAX];
  unsigned nr_sockets;
  bool once;

  /* Data of the page that is being written. */
  struct target *targets[TARGETS_MAX];
  unsigned nr;
};

/* ---- targets ---- */

static struct target *
new_target (struct exporter *e)
{
  struct target *t =
      e->nr < TARGETS_MAX ? calloc (1, sizeof (struct target)) : NULL;

  if (t != NULL)
    e->targets[e->nr++] = t;
  return t;
}

static void
find_targets (struct exporter *e)
{
  struct fp_error error;
  struct target *t;

  for (int i = state_next (-1); i >= 0; i = state_next (i)) {
    char link[STATE_LINK_MAX];
    struct state st;
    int r = state_load (&st, i, &error);

    if (r == -ENOENT)
      continue; /* being attached or detached */
    t = new_target (e);
    if (t == NULL) {
      state_clear (&st);
      return;
    }
    t->attached = r == 0;
    t->st = st;
    (void) device_swap (i, &t->swap, NULL);
    state_path (t->path, i, "status.sock");
    snprintf (t->device, sizeof t->device, "%s", device_path (i).s);
    /* The link's name stays if the device gets another number. */
    (void) state_load_link (link, i, &error);
    snprintf (t->volume, sizeof t->volume, "%s",
              link[0] != '\0' ? link : device_name (i).s);
  }
  for (unsigned i = 0; i < e->nr_sockets; i++) {
    t = new_target (e);
    if (t == NULL)
      return;
    snprintf (t->path, sizeof t->path, "%s", e->sockets[i]);
    snprintf (t->device, sizeof t->device, "%s", e->sockets[i]);
    snprintf (t->volume, sizeof t->volume, "%s", e->sockets[i]);
  }
}

static void
forget_targets (struct exporter *e)
{
  for (unsigned i = 0; i < e->nr; i++) {
    state_clear (&e->targets[i]->st);
    free (e->targets[i]);
  }
  e->nr = 0;
}

/* ---- the page ---- */

enum of { UP, RESTARTS, SIZE, SWAP_SIZE, SWAP_USED };

static const struct {
  enum of of;
  const char *name, *help;
  enum fp_prom_type type;
} families[] = {
  { UP, "farpage_device_up",
    "1: the process that serves the device has answered.", FP_PROM_GAUGE },
  { RESTARTS, "farpage_device_restarts_total",
    "Restarts of the process that serves the device.", FP_PROM_COUNTER },
  { SIZE, "farpage_device_size_bytes", "Size of the device.", FP_PROM_GAUGE },
  { SWAP_SIZE, "farpage_device_swap_size_bytes",
    "Size of the swap area on the device.", FP_PROM_GAUGE },
  { SWAP_USED, "farpage_device_swap_used_bytes",
    "Swapped-out memory on the device.", FP_PROM_GAUGE },
};
#define NR_FAMILIES (sizeof families / sizeof families[0])

/* Get the value of a sample.  Return false if this target has none. */
static bool
value (const struct target *t, const struct page *page, enum of of,
       uint64_t *out)
{
  switch (of) {
  case UP:
    *out = page->text != NULL;
    return true;
  case RESTARTS:
    *out = t->st.restarts;
    return t->attached;
  case SIZE:
    *out = t->st.size;
    return t->attached;
  case SWAP_SIZE:
    *out = t->swap.size;
    return t->swap.active;
  case SWAP_USED:
    *out = t->swap.used;
    return t->swap.active;
  }
  return false;
}

static void
put_own (const struct exporter *e, const struct page *pages, struct fp_prom *p)
{
  fp_prom_family (p, "farpage_exporter_info", FP_PROM_GAUGE,
                  "Version of the exporter; always 1.");
  fp_prom_value (p, 1, FP_LABELS ({ "version", PACKAGE_VERSION }));
  for (unsigned f = 0; f < NR_FAMILIES; f++) {
    fp_prom_family (p, families[f].name, families[f].type, families[f].help);
    for (unsigned i = 0; i < e->nr; i++) {
      uint64_t n;

      if (value (e->targets[i], &pages[i], families[f].of, &n))
        fp_prom_value (p, n, e->targets[i]->labels);
    }
  }
}

/* Return a page with the exporter's own metrics, or NULL if out of memory. */
static char *
own_page (const struct exporter *e, const struct page *pages)
{
  struct fp_prom p = { .used = 0 };
  char *text = NULL;

  put_own (e, pages, &p);
  if (fp_prom_ok (&p))
    text = realloc (p.text, p.used + 1);
  if (text == NULL)
    free (p.text);
  else
    text[p.used] = '\0';
  return text;
}

static void
put_all (struct exporter *e, struct page *pages, struct fp_prom *out)
{
  FP_CLEANUP (fp_free) char *own = NULL;
  struct fp_prom_part parts[TARGETS_MAX + 1];
  unsigned nr = 0;

  own = own_page (e, pages);
  if (own == NULL) {
    out->failed = true;
    return;
  }
  parts[nr++] = (struct fp_prom_part) { .text = own };
  for (unsigned i = 0; i < e->nr; i++)
    if (pages[i].text != NULL)
      parts[nr++] = (struct fp_prom_part) { .text = pages[i].text,
                                            .labels = e->targets[i]->labels };
  fp_prom_join (out, parts, nr);
}

static void
render (void *ctx, struct fp_prom *out)
{
  struct exporter *e = ctx;
  struct page *pages;

  find_targets (e);
  pages = calloc (e->nr + 1, sizeof *pages);
  if (pages == NULL)
    out->failed = true;
  else {
    for (unsigned i = 0; i < e->nr; i++) {
      struct target *t = e->targets[i];

      t->labels[0] = (struct fp_prom_label) { "device", t->device };
      t->labels[1] = (struct fp_prom_label) { "volume", t->volume };
      pages[i].path = t->path;
    }
    pages_ask (pages, e->nr, ASK_MS);
    /* The service does not log at each scrape: farpage_device_up is 0. */
    for (unsigned i = 0; i < e->nr && e->once; i++)
      if (pages[i].text == NULL)
        say_error ("exporter: %s", pages[i].error.text);
    put_all (e, pages, out);
    pages_free (pages, e->nr);
  }
  free (pages);
  forget_targets (e);
}

/* ---- the command ---- */

static int
print_once (struct exporter *e)
{
  struct fp_prom page = { .used = 0 };
  int status = EXIT_SUCCESS;

  render (e, &page);
  if (!fp_prom_ok (&page))
    status = say_error ("exporter: %s", strerror (ENOMEM));
  else if (fwrite (page.text, 1, page.used, stdout) != page.used ||
           fflush (stdout) != 0)
    status = say_error ("exporter: %s", strerror (errno));
  free (page.text);
  return status;
}

static void
on_signal (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  (void) event_base_loopbreak (arg);
}

static int
serve_on (struct exporter *e, struct fp_scrape_sockets *sockets,
          struct event_base *base)
{
  static const int signals[] = { SIGTERM, SIGINT };
  struct event *ends[2] = { NULL, NULL };
  struct fp_scrape *scrape = NULL;
  char addr[FP_ADDR_MAX + 1];
  bool ok = true;

  for (unsigned i = 0; i < 2; i++) {
    ends[i] = evsignal_new (base, signals[i], on_signal, base);
    ok = ok && ends[i] != NULL && event_add (ends[i], NULL) == 0;
  }
  if (ok && fp_scrape_new (&scrape, base, sockets, render, e) == 0) {
    fp_addr_format (&sockets->addr, addr);
    printf ("metrics are at %s\n", addr);
    fflush (stdout);
    sd_notifyf (0, "READY=1\nSTATUS=metrics are at %s", addr);
    ok = event_base_dispatch (base) == 0;
  }
  ok = ok && scrape != NULL;
  fp_scrape_free (scrape);
  for (unsigned i = 0; i < 2; i++)
    if (ends[i] != NULL)
      event_free (ends[i]);
  return ok ? EXIT_SUCCESS : say_error ("exporter: %s", strerror (ENOMEM));
}

static int
serve (struct exporter *e)
{
  struct fp_scrape_sockets sockets;
  struct event_base *base;
  struct fp_error error;
  const char *why;
  int status;

  status = fp_scrape_listen (&sockets, &e->listen, &error);
  if ((status == -EAFNOSUPPORT || status == -EADDRNOTAVAIL) && e->anywhere &&
      fp_scrape_parse (&e->listen, NO_IPV6_LISTEN, &why) == 0)
    status = fp_scrape_listen (&sockets, &e->listen, &error);
  if (status < 0)
    return say_error ("exporter: %s", error.text);
  base = event_base_new ();
  status = base != NULL ? serve_on (e, &sockets, base)
                        : say_error ("exporter: %s", strerror (ENOMEM));
  if (base != NULL)
    event_base_free (base);
  fp_scrape_close (&sockets);
  return status;
}

static bool
add_socket (struct exporter *e, const char *path, const char **why)
{
  for (unsigned i = 0; i < e->nr_sockets; i++)
    if (strcmp (e->sockets[i], path) == 0) {
      *why = "given twice";
      return false;
    }
  *why = "there are too many";
  if (e->nr_sockets == SOCKETS_MAX)
    return false;
  e->sockets[e->nr_sockets++] = path;
  return true;
}

int
cmd_exporter (int argc, char *argv[])
{
  FP_CLEANUP (fp_free) struct exporter *e = calloc (1, sizeof *e);
  const char *listen = NULL, *why;
  int c, status;

  if (e == NULL)
    return say_error ("exporter: %s", strerror (ENOMEM));
  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "exporter", help, &status))
      return status;
    if (c == 'l')
      listen = optarg;
    e->once = e->once || c == 'o';
    if (c == 's' && !add_socket (e, optarg, &why))
      return say_usage ("exporter", "--socket %s: %s", optarg, why);
  }
  if (optind < argc)
    return say_usage ("exporter", "%s: exporter takes no arguments",
                      argv[optind]);
  e->anywhere = listen == NULL;
  listen = listen != NULL ? listen : DEFAULT_LISTEN;
  if (fp_scrape_parse (&e->listen, listen, &why) < 0)
    return say_usage ("exporter", "--listen %s: %s", listen, why);
  return e->once ? print_once (e) : serve (e);
}
