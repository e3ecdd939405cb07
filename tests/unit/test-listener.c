/* SPDX-License-Identifier: BSD-3-Clause */
/* test-listener.c - a name that has several addresses.  The server cannot
 * listen on some of them.
 */

#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "donor.h"
#include "memserver/listener.h"
#include "memserver/session/rdma.h"

static struct fp_sockaddrs resolved;
static char warning[512];
static unsigned warnings;

/* Replaces the resolver (-Wl,--wrap). */
int __wrap_fp_addr_resolve (const struct fp_addr *addr,
                            struct fp_sockaddrs *out, const char **why);

int
__wrap_fp_addr_resolve (const struct fp_addr *addr, struct fp_sockaddrs *out,
                        const char **why)
{
  (void) addr;
  (void) why;
  *out = resolved;
  return 0;
}

static void
sink (enum fp_log_level level, const char *message, void *opaque)
{
  (void) opaque;
  if (level != FP_LOG_WARN)
    return;
  warnings++;
  snprintf (warning, sizeof warning, "%s", message);
}

static int
setup (void **state)
{
  (void) state;
  donor_start (1, 1);
  fp_log_set_sink (sink, NULL);
  memset (&resolved, 0, sizeof resolved);
  warnings = 0;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  for (unsigned i = 0; i < donor.nr_listeners; i++)
    listener_free (donor.listeners[i]);
  rdma_free (donor.sessions.rdma);
  donor_stop ();
  return 0;
}

static void
resolve_to (uint32_t host, uint16_t port)
{
  struct sockaddr_in in = { .sin_family = AF_INET,
                            .sin_port = htons (port),
                            .sin_addr.s_addr = htonl (host) };

  memcpy (&resolved.list[resolved.nr].addr, &in, sizeof in);
  resolved.list[resolved.nr++].len = sizeof in;
}

/* Return a socket that uses a port of 127.0.0.1; set *port to it.  The ports
 * from 32768 on are those that the kernel chooses: another process may have
 * got one of all addresses.
 */
static int
in_use (uint16_t *port)
{
  struct sockaddr_in in = { .sin_family = AF_INET,
                            .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  assert_true (fd >= 0);
  for (*port = 20000; *port < 30000; (*port)++) {
    in.sin_port = htons (*port);
    if (bind (fd, (struct sockaddr *) &in, sizeof in) == 0)
      break;
    assert_int_equal (errno, EADDRINUSE);
  }
  assert_int_equal (listen (fd, 1), 0);
  return fd;
}

static void
test_some_in_use (void **state)
{
  struct fp_error error = { .text = "" };
  char expected[128];
  struct fp_addr name = { .host = "donor" };
  int fd = in_use (&name.port);

  (void) state;
  resolve_to (INADDR_LOOPBACK, name.port);
  resolve_to (INADDR_LOOPBACK, name.port); /* a duplicate counts once */
  resolve_to (INADDR_LOOPBACK + 1, name.port);
  resolve_to (INADDR_LOOPBACK + 1, name.port);
  assert_int_equal (listener_open (&donor, &name, &error), 0);
  assert_int_equal (donor.nr_listeners, 1);
  assert_int_equal (warnings, 1);
  snprintf (expected, sizeof expected, "listen: 127.0.0.1:%u,", name.port);
  assert_non_null (strstr (warning, expected));
  assert_non_null (strstr (warning, strerror (EADDRINUSE)));
  close (fd);
}

static void
test_all_in_use (void **state)
{
  struct fp_error error = { .text = "" };
  char expected[128];
  struct fp_addr name = { .host = "donor" };
  int fd = in_use (&name.port);

  (void) state;
  resolve_to (INADDR_LOOPBACK, name.port);
  assert_int_equal (listener_open (&donor, &name, &error), -EADDRINUSE);
  assert_int_equal (warnings, 0);
  snprintf (expected, sizeof expected, "listen: donor:%u: %s", name.port,
            strerror (EADDRINUSE));
  assert_memory_equal (error.text, expected, strlen (expected));
  close (fd);
}

/* One address can be reached from other machines, so --insecure is needed. */
static void
test_not_all_local (void **state)
{
  struct fp_addr name = { .host = "donor" };
  struct fp_error error = { .text = "" };

  (void) state;
  resolve_to (INADDR_LOOPBACK, 0);
  resolve_to (0x0a000001, 0);
  assert_int_equal (listener_open (&donor, &name, &error), -EACCES);
  assert_int_equal (donor.nr_listeners, 0);
  assert_non_null (strstr (error.text, "--insecure"));
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_some_in_use),
    TEST (test_all_in_use),
    TEST (test_not_all_local),
  };

  return RUN_TESTS (tests);
}
