/* SPDX-License-Identifier: BSD-3-Clause */
/* test-scrape.c - how long a page of metrics is sent again (metrics/scrape.h).
 * Both clocks are the test's.
 */

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "metrics/scrape.h"

static uint64_t now, cpu;
static uint64_t takes_ns, takes_cpu_ns; /* a page */
static unsigned rendered;
static struct event_base *base;
static struct fp_scrape_sockets sockets;
static struct fp_scrape *scrape;
static char dir[64];

uint64_t __wrap_fp_now_ns (void);
uint64_t
__wrap_fp_now_ns (void)
{
  return now;
}

int __real_clock_gettime (clockid_t id, struct timespec *ts);
int __wrap_clock_gettime (clockid_t id, struct timespec *ts);
int
__wrap_clock_gettime (clockid_t id, struct timespec *ts)
{
  if (id != CLOCK_THREAD_CPUTIME_ID)
    return __real_clock_gettime (id, ts);
  ts->tv_sec = (time_t) (cpu / FP_NS_PER_S);
  ts->tv_nsec = (long) (cpu % FP_NS_PER_S);
  return 0;
}

static void
render (void *ctx, struct fp_prom *page)
{
  (void) ctx;
  rendered++;
  now += takes_ns;
  cpu += takes_cpu_ns;
  fp_prom_family (page, "pages", FP_PROM_COUNTER, "Pages.");
  fp_prom_value (page, rendered, NULL);
}

static int
setup (void **state)
{
  struct fp_error error;
  struct fp_addr addr;
  char text[128];
  const char *why;

  (void) state;
  now = FP_NS_PER_S;
  rendered = 0;
  snprintf (dir, sizeof dir, "/tmp/farpage-scrape.XXXXXX");
  assert_non_null (mkdtemp (dir));
  snprintf (text, sizeof text, "unix:%s/s", dir);
  assert_int_equal (fp_scrape_parse (&addr, text, &why), 0);
  assert_int_equal (fp_scrape_listen (&sockets, &addr, &error), 0);
  base = event_base_new ();
  assert_non_null (base);
  assert_int_equal (fp_scrape_new (&scrape, base, &sockets, render, NULL), 0);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_scrape_free (scrape);
  event_base_free (base);
  fp_scrape_close (&sockets);
  return rmdir (dir);
}

/* Return the number of the page that the server sends. */
static unsigned
page (void)
{
  static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
  struct sockaddr_un sun = { .sun_family = AF_UNIX };
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  char answer[4096], *value;
  size_t used = 0;
  ssize_t n;

  snprintf (sun.sun_path, sizeof sun.sun_path, "%s/s", dir);
  assert_int_equal (connect (fd, (struct sockaddr *) &sun, sizeof sun), 0);
  assert_int_equal (send (fd, request, sizeof request - 1, MSG_NOSIGNAL),
                    sizeof request - 1);
  do {
    assert_int_equal (event_base_loop (base, EVLOOP_ONCE), 0);
    n = recv (fd, answer + used, sizeof answer - 1 - used, MSG_DONTWAIT);
    assert_true (n >= 0 || errno == EAGAIN);
    used += n > 0 ? (size_t) n : 0;
  } while (n != 0);
  close (fd);
  answer[used] = '\0';
  value = strstr (answer, "\npages ");
  assert_non_null (value);
  return (unsigned) strtoul (value + strlen ("\npages "), NULL, 10);
}

/* A page that took 10 ms of CPU time is sent again for 200 ms. */
static void
test_reuse (void **state)
{
  (void) state;
  takes_ns = takes_cpu_ns = 10 * FP_NS_PER_MS;
  assert_int_equal (page (), 1);
  now += 199 * FP_NS_PER_MS;
  assert_int_equal (page (), 1);
  now += 2 * FP_NS_PER_MS;
  assert_int_equal (page (), 2);
}

/* The page waited 2 s for a process that hangs, and is old at once. */
static void
test_wait (void **state)
{
  (void) state;
  takes_ns = 2 * FP_NS_PER_S;
  takes_cpu_ns = FP_NS_PER_MS;
  assert_int_equal (page (), 1);
  now += 21 * FP_NS_PER_MS;
  assert_int_equal (page (), 2);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_reuse, setup, teardown),
    cmocka_unit_test_setup_teardown (test_wait, setup, teardown),
  };

  return RUN_TESTS (tests);
}
