/* SPDX-License-Identifier: BSD-3-Clause */
/* test-options.c - the command line of farpage-memserver, as a structure. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memserver/options.h"

#define MAX_ARGS 64

static struct options o;

/* Parse line; discard all output. */
static int
parse (const char *line)
{
  static char copy[4096];
  char *argv[MAX_ARGS + 1] = { (char *) (uintptr_t) "farpage-memserver" };
  int argc = 1, saved[2], null, r;

  snprintf (copy, sizeof copy, "%s", line);
  for (char *s = strtok (copy, " "); s != NULL; s = strtok (NULL, " ")) {
    assert_true (argc < MAX_ARGS);
    argv[argc++] = s;
  }
  fflush (NULL);
  null = open ("/dev/null", O_WRONLY | O_CLOEXEC);
  assert_true (null >= 0);
  for (int fd = 1; fd <= 2; fd++) {
    saved[fd - 1] = dup (fd);
    assert_true (dup2 (null, fd) == fd);
  }
  optind = 0; /* getopt starts over */
  memset (&o, 0x5a, sizeof o);
  r = options_parse (&o, argc, argv);
  fflush (NULL);
  for (int fd = 1; fd <= 2; fd++) {
    assert_true (dup2 (saved[fd - 1], fd) == fd);
    close (saved[fd - 1]);
  }
  close (null);
  return r;
}

static void
test_defaults (void **state)
{
  (void) state;
  assert_int_equal (parse ("--size 1G"), 0);
  assert_int_equal (o.size, UINT64_C (1) << 30);
  assert_int_equal (o.slab, DEFAULT_SLAB);
  assert_int_equal (o.nr_listen, 0);
  assert_int_equal (o.hugepages, HUGEPAGES_AUTO);
  assert_int_equal (o.numa, -1);
  assert_int_equal (o.lease_s, DEFAULT_LEASE_S);
  assert_int_equal (o.log_level, FP_LOG_INFO);
  assert_false (o.reserve_given);
  assert_true (fp_name_ok (o.name));
  assert_false (o.insecure);
  assert_string_equal (o.pidfile, "");
  assert_string_equal (o.address_file, "");
}

static void
test_all (void **state)
{
  (void) state;
  assert_int_equal (
      parse ("--size 8G --slab 1G --name n1 --reserve 0 --hugepages 1G "
             "--numa 3 --lease 86400 --address-file a --pidfile p "
             "--log-level debug --listen [::1]:99 --listen unix:/s "
             "--listen=host"),
      0);
  assert_int_equal (o.slab, UINT64_C (1) << 30);
  assert_string_equal (o.name, "n1");
  assert_true (o.reserve_given);
  assert_int_equal (o.reserve, 0);
  assert_int_equal (o.hugepages, HUGEPAGES_1G);
  assert_int_equal (o.numa, 3);
  assert_int_equal (o.lease_s, MAX_LEASE_S);
  assert_string_equal (o.address_file, "a");
  assert_string_equal (o.pidfile, "p");
  assert_int_equal (o.log_level, FP_LOG_DEBUG);
  assert_int_equal (o.nr_listen, 3);
  assert_int_equal (o.listen[0].port, 99);
  assert_true (o.listen[1].is_unix);
  assert_string_equal (o.listen[2].host, "host");
  assert_int_equal (o.listen[2].port, FP_DEFAULT_PORT);
}

static void
test_words (void **state)
{
  static const struct {
    const char *word;
    enum hugepages kind;
  } kinds[] = { { "auto", HUGEPAGES_AUTO },
                { "2M", HUGEPAGES_2M },
                { "1G", HUGEPAGES_1G },
                { "off", HUGEPAGES_OFF } };

  (void) state;
  for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    char line[64];

    snprintf (line, sizeof line, "--size 1G --slab 1G --hugepages %s",
              kinds[i].word);
    assert_int_equal (parse (line), 0);
    assert_int_equal (o.hugepages, kinds[i].kind);
  }
}

static void
test_refused (void **state)
{
  static const char *const lines[] = {
    "",
    "--size",
    "--size 0",
    "--size -1",
    "--size 1G1",
    "--size 99999999999999999999",
    "--size 1G --size 1G",
    "--size 1G --slab 0",
    "--size 1G --slab 32K",
    "--size 300M --slab 3M",
    "--size 257M --slab 256M",
    "--size 4096G --slab 1M",
    "--size 1G --hugepages",
    "--size 1G --hugepages 2m",
    "--size 1M --slab 1M --hugepages 2M",
    "--size 1G --hugepages 1G",
    "--size 1G --numa -1",
    "--size 1G --numa 1024",
    "--size 1G --numa 1x",
    "--size 1G --lease 0",
    "--size 1G --lease 86401",
    "--size 1G --lease 1.5",
    "--size 1G --name a/b",
    "--size 1G --log-level INFO",
    "--size 1G --listen",
    "--size 1G --listen unix:",
    "--size 1G --listen h:0x1",
    "--size 1G --listen h --listen h:7471",
    "--size 1G --listen unix:/s --listen unix:/s",
    "--size 1G extra",
    "--size 1G --config /no/such/file",
    "--size 1G --insecure --insecure",
    "--size 1G --insecure=yes",
  };

  (void) state;
  for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    if (parse (lines[i]) != -EINVAL)
      fail_msg ("taken: '%s'", lines[i]);
  }
}

static void
test_many_listen (void **state)
{
  char line[1024] = "--size 1G";
  size_t used = strlen (line);

  (void) state;
  for (unsigned i = 0; i < MAX_LISTEN; i++)
    used += (size_t) snprintf (line + used, sizeof line - used,
                               " --listen h%u", i);
  assert_int_equal (parse (line), 0);
  assert_int_equal (o.nr_listen, MAX_LISTEN);
  snprintf (line + used, sizeof line - used, " --listen one-more");
  assert_int_equal (parse (line), -EINVAL);
}

/* Port 0 may be given twice: each time it stands for another port. */
static void
test_any_port (void **state)
{
  (void) state;
  assert_int_equal (parse ("--size 1G --listen h:0 --listen h:0"), 0);
  assert_int_equal (o.nr_listen, 2);
}

/* Addresses that need no --insecure: docs/SECURITY.md. */
static void
test_may_listen (void **state)
{
  static const struct {
    const char *args;
    bool far;
  } table[] = {
    { "", false },
    { "--tls off", false },
    { "--insecure", true },
    { "--tls-psk k", true },
    { "--tls require --tls-certificates d", true },
    { "--tls on --tls-psk k", false },
    { "--tls off --tls-psk k", false },
    { "--tls on --tls-psk k --insecure", true },
  };
  const struct sockaddr_in here = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl (0x7f000001) };
  const struct sockaddr_in there = { .sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl (0x0a000001) };

  (void) state;
  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
    char line[128];

    snprintf (line, sizeof line, "--size 1G %s", table[i].args);
    assert_int_equal (parse (line), 0);
    assert_true (options_may_listen (&o, (const struct sockaddr *) &here));
    if (options_may_listen (&o, (const struct sockaddr *) &there) !=
        table[i].far)
      fail_msg ("%s", line);
  }
}

static void
test_help (void **state)
{
  (void) state;
  assert_int_equal (parse ("--help"), 1);
  assert_int_equal (parse ("--version"), 1);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_defaults),    cmocka_unit_test (test_all),
    cmocka_unit_test (test_words),       cmocka_unit_test (test_refused),
    cmocka_unit_test (test_many_listen), cmocka_unit_test (test_any_port),
    cmocka_unit_test (test_may_listen),  cmocka_unit_test (test_help),
  };

  return RUN_TESTS (tests);
}
