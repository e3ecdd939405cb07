/* SPDX-License-Identifier: BSD-3-Clause */
/* test-params.c - the plugin's parameters: each accepted form, each refusal,
 * and what follows from other parameters.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "front/members.h"
#include "front/params.h"

#define SERVER "server=127.0.0.1"

/* Set each "key=value" of the space-separated list, then complete. */
static int
parse (struct fp_params *p, const char *list, struct fp_error *error)
{
  char copy[2048];
  char *save = NULL;

  fp_params_init (p);
  error->text[0] = '\0';
  snprintf (copy, sizeof copy, "%s", list);
  for (char *s = strtok_r (copy, " ", &save); s != NULL;
       s = strtok_r (NULL, " ", &save)) {
    char *eq = strchr (s, '=');
    int r;

    assert_non_null (eq);
    *eq = '\0';
    r = fp_params_set (p, s, eq + 1, error);
    if (r < 0)
      return r;
  }
  assert_int_equal (fp_members_read (p, error), 0);
  return fp_params_complete (p, error);
}

static void
test_defaults (void **state)
{
  struct fp_params p;
  struct fp_error error;
  long cpus = sysconf (_SC_NPROCESSORS_ONLN);

  (void) state;
  assert_int_equal (parse (&p, "server=donor size=1G", &error), 0);
  assert_string_equal (error.text, "");
  assert_int_equal (p.volume.nr_servers, 1);
  assert_string_equal (p.volume.servers[0].host, "donor");
  assert_int_equal (p.volume.servers[0].port, FP_DEFAULT_PORT);
  assert_int_equal (p.volume.size, 1 << 30);
  assert_int_equal (p.volume.slab_size, 0);
  assert_int_equal (p.volume.stripe.size, 0);
  assert_int_equal (p.volume.stripe.width, 0);
  assert_int_equal (p.volume.transports, FP_TRANSPORT_WIRE_MASK);
  assert_int_equal (p.volume.timeout_ms, 2000); /* as the man page says */
  assert_int_equal (p.volume.poll_us, 100);
  assert_false (p.volume.hedge);
  assert_int_equal (p.volume.lanes, cpus > FP_MAX_LANES ? FP_MAX_LANES : cpus);
  assert_true (fp_uuid_is_nil (&p.volume.uuid));
  assert_false (p.volume.resume);
  assert_false (p.volume.reserve_full);
  assert_false (p.swap);
  assert_true (p.mlock);
  assert_false (p.keep);
  assert_string_equal (p.status, "");
}

/* A parameter that is not given is as the volume was created.  The order does
 * not matter.
 */
static void
test_copies (void **state)
{
  struct fp_params p;
  struct fp_error error;

  (void) state;
  assert_int_equal (parse (&p, SERVER " size=1G", &error), 0);
  assert_int_equal (p.volume.copies, 0);
  assert_int_equal (
      parse (&p, SERVER " volume=v copies=2 transport=auto", &error), 0);
  assert_int_equal (p.volume.copies, 2);
}

static void
test_all (void **state)
{
  struct fp_params p;
  char uuid[FP_UUID_STR_MAX];
  struct fp_error error;

  (void) state;
  assert_int_equal (
      parse (&p,
             "server=[::1]:99 server=unix:/run/f.sock size=512 slab=4M "
             "stripe=64k stripe-width=5 "
             "transport=shm timeout=50 poll=0 connections=64 reserve=thin "
             "mlock=off uuid=01234567-89ab-cdef-0123-456789abcdef resume=1 "
             "keep=yes status=/run/s.sock copies=1 takeover=false",
             &error),
      0);
  assert_int_equal (p.volume.nr_servers, 2);
  assert_string_equal (p.volume.servers[0].host, "::1");
  assert_int_equal (p.volume.servers[0].port, 99);
  assert_true (p.volume.servers[1].is_unix);
  assert_string_equal (p.volume.servers[1].host, "/run/f.sock");
  assert_int_equal (p.volume.size, 512);
  assert_int_equal (p.volume.slab_size, 4 << 20);
  assert_int_equal (p.volume.stripe.size, 64 << 10);
  assert_int_equal (p.volume.stripe.width, 5);
  assert_int_equal (p.volume.transports, FP_TRANSPORT_SHM);
  assert_int_equal (p.volume.timeout_ms, 50);
  assert_int_equal (p.volume.poll_us, 0);
  assert_int_equal (p.volume.lanes, 64);
  assert_false (p.mlock);
  fp_uuid_format (&p.volume.uuid, uuid);
  assert_string_equal (uuid, "01234567-89ab-cdef-0123-456789abcdef");
  assert_true (p.volume.resume);
  assert_true (p.keep);
  assert_string_equal (p.status, "/run/s.sock");
}

static void
test_words (void **state)
{
  static const char *const words[2][7] = {
    { "0", "n", "no", "f", "false", "off", "False" },
    { "1", "y", "yes", "t", "true", "on", "ON" },
  };
  static const struct {
    const char *name;
    unsigned transports;
  } transports[] = {
    { "auto", FP_TRANSPORT_WIRE_MASK },
    { "rdma", FP_TRANSPORT_RDMA },
    { "shm", FP_TRANSPORT_SHM },
    { "tcp", FP_TRANSPORT_TCP },
  };
  struct fp_params p;
  char list[100];
  struct fp_error error;

  (void) state;
  for (unsigned b = 0; b < 2; b++)
    for (unsigned i = 0; i < 7; i++) {
      snprintf (list, sizeof list, SERVER " size=1G keep=%s mlock=%s",
                words[b][i], words[b][i]);
      if (parse (&p, list, &error) != 0)
        fail_msg ("'%s' got '%s'", list, error.text);
      assert_int_equal (p.keep, b);
      assert_int_equal (p.mlock, b);
    }
  for (unsigned i = 0; i < sizeof transports / sizeof transports[0]; i++) {
    snprintf (list, sizeof list, "server=unix:/s size=1G transport=%s",
              transports[i].name);
    if (parse (&p, list, &error) != 0)
      fail_msg ("'%s' got '%s'", list, error.text);
    assert_int_equal (p.volume.transports, transports[i].transports);
  }
}

static void
test_follows (void **state)
{
  struct fp_params p;
  char cwd[200], path[512];
  struct fp_error error;

  (void) state;
  assert_int_equal (parse (&p, SERVER " size=1G swap=true", &error), 0);
  assert_true (p.volume.reserve_full);
  /* Without a second copy, an error costs more than a wait. */
  assert_int_equal (p.volume.timeout_ms, 10000);
  assert_int_equal (parse (&p, SERVER " size=1G swap=true copies=2", &error),
                    0);
  assert_int_equal (p.volume.timeout_ms, 2000);
  assert_int_equal (parse (&p, SERVER " volume=x size=1G swap=true", &error),
                    0);
  assert_int_equal (p.volume.timeout_ms, 2000);
  assert_int_equal (
      parse (&p, SERVER " size=1G swap=true timeout=940", &error), 0);
  assert_int_equal (p.volume.timeout_ms, 940);
  assert_int_equal (
      parse (&p, SERVER " size=1G swap=true timeout=50 transport=tcp", &error),
      0);

  /* nbdkit will be in / when it reconnects. */
  assert_non_null (getcwd (cwd, sizeof cwd));
  assert_int_equal (chdir ("/tmp"), 0);
  assert_int_equal (parse (&p, "server=unix:a/b size=1G status=c", &error), 0);
  assert_int_equal (chdir (cwd), 0);
  assert_string_equal (p.volume.servers[0].host, "/tmp/a/b");
  assert_string_equal (p.status, "/tmp/c");

  /* The longest name of a socket. */
  snprintf (path, sizeof path, SERVER " size=1G status=/%0106d", 0);
  assert_int_equal (parse (&p, path, &error), 0);
  assert_int_equal (strlen (p.status), 107);
}

static const struct {
  const char *list;
  const char *why; /* substring of the message */
} bad[] = {
  { "", "server=ADDR is required" },
  { "size=1G", "server=ADDR is required" },
  { SERVER, "size=SIZE is required" },
  { SERVER " size=1G colour=red", "unknown parameter 'colour'" },
  { SERVER " size=1G =", "unknown parameter ''" },

  { SERVER " size=", "size=" },
  { SERVER " size=0", "multiple of 512" },
  { SERVER " size=1000", "multiple of 512" },
  { SERVER " size=lots", "size=lots" },
  { SERVER " size=-1", "size=-1" },
  { SERVER " size=99999999999999999999", "size=9999" },
  { SERVER " size=8E", "size=8E" },

  { "server= size=1G", "server=" },
  { "server=[::1 size=1G", "server=[::1" },
  { "server=a:b:c size=1G", "server=a:b:c" },
  { "server=a:65536 size=1G", "server=a:65536" },
  { "server=a:0 size=1G", "server=a:0" },
  { "server=unix: size=1G", "server=unix:" },
  { "server=0.0.0.0 size=1G", "not an address to connect to" },
  { SERVER " " SERVER " size=1G", "given twice" },
  { SERVER " " SERVER ":7471 size=1G", "given twice" },
  { "server=unix:/a server=unix:/a size=1G", "given twice" },

  { SERVER " size=1G slab=3M", "power of two" },
  { SERVER " size=1G slab=0", "power of two" },
  { SERVER " size=1G slab=32k", "power of two" },
  { SERVER " size=1G slab=x", "slab=x" },
  { SERVER " size=1G stripe=3M", "power of two" },
  { SERVER " size=1G stripe=2k", "power of two, at least 4096" },
  { SERVER " size=1G stripe=x", "stripe=x" },
  { SERVER " size=1G stripe-width=0", "from 1 to 64" },
  { SERVER " size=1G stripe-width=65", "from 1 to 64" },
  { SERVER " size=1G stripe-width=all", "from 1 to 64" },
  { SERVER " size=1G transport=pigeon", "auto, rdma, shm or tcp" },
  { SERVER " size=1G transport=fake", "auto, rdma, shm or tcp" },
  { SERVER " size=1G transport=shm", "needs server=unix:PATH" },
  { SERVER " size=1G checksum=md5", "must be crc32c or off" },
  { SERVER " size=1G checksum=crc32c volume=v", "contradict" },
  { SERVER " size=1G encrypt=", "the path is empty" },
  { SERVER " size=1G encrypt=ephemeral volume=v", "the key is lost" },
  { SERVER " size=1G encrypt=ephemeral resume=true "
           "uuid=89abcdef-0123-4567-89ab-cdef01234567",
    "cannot be read" },
  { SERVER " size=1G integrity=maybe", "must be true or false" },
  { SERVER " size=1G integrity=on", "needs encrypt=ephemeral" },
  { SERVER " size=1G integrity=on encrypt=/x", "encrypt=ephemeral" },
  { SERVER " size=1G integrity=on encrypt=/x volume=v",
    "integrity=on and volume=v contradict" },
  { SERVER " size=1G integrity=on volume=v",
    "integrity=on and volume=v contradict" },
  { SERVER " size=1G integrity=on encrypt=ephemeral checksum=crc32c",
    "leave out checksum=crc32c" },
  { SERVER " size=1G timeout=49", "from 50ms to 10min, in steps of 1ms" },
  { SERVER " size=1G timeout=600001", "from 50ms to 10min, in steps of 1ms" },
  { SERVER " size=1G timeout=1sec", "from 50ms to 10min" },
  { SERVER " size=1G timeout=", "from 50ms to 10min, in steps of 1ms" },
  { SERVER " size=1G timeout=4294967396",
    "from 50ms to 10min, in steps of 1ms" },
  { SERVER " size=1G poll=10001", "from 0s to 10ms" },
  { SERVER " size=1G poll=-1", "from 0s to 10ms" },
  { SERVER " size=1G connections=0", "from 1 to 64" },
  { SERVER " size=1G connections=65", "from 1 to 64" },
  { SERVER " size=1G reserve=half", "full or thin" },
  { SERVER " size=1G swap=maybe", "true or false" },
  { SERVER " size=1G mlock=2", "true or false" },
  { SERVER " size=1G keep=", "true or false" },
  { SERVER " size=1G uuid=1234", "not a UUID" },
  { SERVER " size=1G uuid=00000000-0000-0000-0000-000000000000",
    "not a UUID" },
  { SERVER " size=1G resume=true", "needs uuid=UUID" },
  { SERVER " size=1G swap=true reserve=thin", "contradict" },
  { SERVER " size=1G swap=true mlock=false", "contradict" },
  { SERVER " size=1G swap=true timeout=939", "timeout=940 or more" },
  { SERVER " size=1G status=", "empty" },

  { SERVER " size=1G size=1G", "size was given before" },
  { SERVER " size=1G slab=4M slab=4M", "slab was given before" },
  { SERVER " size=1G transport=tcp transport=auto", "given before" },
  { SERVER " size=1G swap=true swap=true", "given before" },

  { SERVER " size=1G copies=5 volume=v", "copies=5:" },
  { SERVER ",domain= size=1G", "server=127.0.0.1,domain=NAME: a name is" },
  { SERVER ",domain=a/b size=1G", "server=127.0.0.1,domain=NAME: a name is" },
  { SERVER " size=1G readonly=true", "readonly=true needs volume=NAME" },
  { SERVER " volume=v readonly=true takeover=true",
    "readonly=true and takeover=true contradict" },
  { SERVER " volume=v readonly=true swap=true",
    "readonly=true and swap=true contradict" },
  { SERVER " volume=v readonly=true reserve=full",
    "readonly=true and reserve=full contradict" },
  { SERVER " volume=v readonly=true add=true",
    "readonly=true and add=true contradict" },
  { SERVER " volume=v readonly=true remove=b",
    "readonly=true and remove=ADDR contradict" },
  { SERVER " volume=v readonly=maybe", "must be true or false" },
  { SERVER " size=1G takeover=true", "takeover=true needs volume=NAME" },
  { SERVER " size=1G degraded=true", "degraded=true needs volume=NAME" },
  { SERVER " volume=v force=true", "force=true needs remove=ADDR" },
  { SERVER " size=1G add=true", "add=true needs volume=NAME" },
  { SERVER " size=1G remove=b", "remove=ADDR needs volume=NAME" },
  { SERVER " size=1G volume=v remove=b:0", "port 0" },
  { SERVER " size=1G volume=v remove=b:c:d", "remove=b:c:d" },
  { SERVER " volume=", "a name is 1 to 64 printable" },
  { SERVER " volume=a/b", "a name is 1 to 64 printable" },
  { SERVER " volume=a\x1b[31m", "a name is 1 to 64 printable" },
  { SERVER " volume=a\"b", "a name is 1 to 64 printable" },
  { SERVER " volume=v volume=w", "given before" },
  { SERVER " volume=v uuid=01234567-89ab-cdef-0123-456789abcdef",
    "uuid=UUID contradict" },
  { SERVER " size=1G client=1-2", "client=1-2: not a UUID" },
  { SERVER " volume=v takeover=perhaps", "must be true or false" },
};

static void
test_times (void **state)
{
  struct fp_error error;
  struct fp_params p;

  (void) state;
  assert_int_equal (parse (&p,
                           SERVER " size=1G timeout=2s await=1min poll=50us "
                                  "copies=2 rebuild-delay=1min",
                           &error),
                    0);
  assert_int_equal (p.volume.timeout_ms, 2000);
  assert_int_equal (p.volume.await_ms, 60000);
  assert_int_equal (p.volume.poll_us, 50);
  assert_int_equal (p.volume.resync_delay_ms, 60000);
  /* The former name, and the former units. */
  assert_int_equal (
      parse (&p, SERVER " size=1G poll=1ms rebuild_delay=3", &error), 0);
  assert_int_equal (p.volume.poll_us, 1000);
  assert_int_equal (p.volume.resync_delay_ms, 3000);
  assert_int_equal (
      parse (&p, SERVER " size=1G rebuild_delay=3 rebuild-delay=3", &error),
      -EINVAL);
  /* A removed parameter is no error, even if it is given twice. */
  assert_int_equal (
      parse (&p, SERVER " size=1G metrics=[::]:9472 metrics=x", &error), 0);
}

static void
test_bad (void **state)
{
  (void) state;
  for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct fp_params p;
    struct fp_error error;

    if (parse (&p, bad[i].list, &error) != -EINVAL)
      fail_msg ("'%s' was accepted", bad[i].list);
    if (strstr (error.text, bad[i].why) == NULL ||
        strchr (error.text, '\n') != NULL)
      fail_msg ("'%s' got '%s', without '%s'", bad[i].list, error.text,
                bad[i].why);
  }
}

static void
test_bounds (void **state)
{
  struct fp_params p;
  char list[1500];
  struct fp_error error;

  (void) state;
  snprintf (list, sizeof list, SERVER " size=1G status=/%0107d", 0);
  assert_int_equal (parse (&p, list, &error), -EINVAL);
  assert_non_null (strstr (error.text, "too long"));

  snprintf (list, sizeof list, SERVER " volume=%064d", 0);
  assert_int_equal (parse (&p, list, &error), 0);
  assert_int_equal (strlen (p.volume.name), 64);
  snprintf (list, sizeof list, SERVER " volume=%0300d", 0);
  assert_int_equal (parse (&p, list, &error), -EINVAL);
  assert_non_null (strstr (error.text, "a name is 1 to 64"));

  /* A value that is too long to repeat is truncated. */
  snprintf (list, sizeof list, SERVER " size=1G timeout=%01200d", 0);
  assert_int_equal (parse (&p, list, &error), -EINVAL);
  assert_int_equal (strlen (error.text), FP_ERROR_MAX - 1);

  fp_params_init (&p);
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++) {
    snprintf (list, sizeof list, "donor:%u", i + 1);
    assert_int_equal (fp_params_set (&p, "server", list, &error), 0);
  }
  assert_int_equal (fp_params_set (&p, "server", "one-more", &error), -EINVAL);
  assert_non_null (strstr (error.text, "more than 64 servers"));
}

/* Parse a pool file with these lines, and parameters before and after it. */
static int
pool_between (struct fp_params *p, const char *before, const char *lines,
              const char *more, struct fp_error *error)
{
  char path[] = "/tmp/farpage-pool.XXXXXX", list[256];
  int fd = mkstemp (path), r;

  assert_true (fd >= 0);
  assert_int_equal (write (fd, lines, strlen (lines)), strlen (lines));
  close (fd);
  snprintf (list, sizeof list, "%spool=%s %s", before, path, more);
  r = parse (p, list, error);
  unlink (path);
  return r;
}

static int
pool (struct fp_params *p, const char *lines, const char *more,
      struct fp_error *error)
{
  return pool_between (p, "", lines, more, error);
}

static void
test_members (void **state)
{
  static const char lines[] = "a:1,domain=r1\nunix:/b\n";
  char path[] = "/tmp/farpage-members.XXXXXX", list[256];
  struct fp_error error;
  int fd = mkstemp (path);
  struct fp_params p;

  (void) state;
  assert_true (fd >= 0);
  assert_int_equal (write (fd, lines, strlen (lines)), strlen (lines));
  close (fd);
  /* Only a client that resumes the volume reads the file. */
  snprintf (list, sizeof list, "server=c size=1G members=%s", path);
  assert_int_equal (parse (&p, list, &error), 0);
  assert_string_equal (p.members, path);
  assert_int_equal (p.volume.nr_servers, 1);
  assert_string_equal (p.volume.servers[0].host, "c");
  snprintf (list, sizeof list,
            "server=c,domain=x size=1G volume=v resume=true members=%s", path);
  assert_int_equal (parse (&p, list, &error), 0);
  assert_int_equal (p.volume.nr_servers, 2);
  assert_string_equal (p.volume.servers[0].host, "a");
  assert_string_equal (p.volume.domains[0], "r1");
  assert_string_equal (p.volume.servers[1].host, "/b");
  assert_string_equal (p.volume.domains[1], "");
  unlink (path);
  /* The file is gone. */
  assert_int_equal (parse (&p, list, &error), 0);
  assert_int_equal (p.volume.nr_servers, 1);
  assert_string_equal (p.volume.servers[0].host, "c");
}

static void
test_pool (void **state)
{
  struct fp_params p;
  struct fp_error error;

  (void) state;
  assert_int_equal (pool (&p,
                          "# two racks\nserver = a:1,domain=r1\n\n"
                          "server = [::1]:2\ntransport = tcp\n",
                          "server=b,domain=r2 size=1G", &error),
                    0);
  assert_int_equal (p.volume.nr_servers, 3);
  assert_string_equal (p.volume.servers[0].host, "a");
  assert_string_equal (p.volume.domains[0], "r1");
  assert_int_equal (p.volume.servers[1].port, 2);
  assert_string_equal (p.volume.domains[1], "");
  assert_string_equal (p.volume.domains[2], "r2");
  assert_int_equal (p.volume.transports, FP_TRANSPORT_TCP);

  /* A parameter given before or after the file overrides it.  The file may
   * give none twice.
   */
  assert_int_equal (pool (&p, "server = a\ntransport = tcp\ntimeout = 500\n",
                          "size=1G transport=auto timeout=700", &error),
                    0);
  assert_int_equal (p.volume.transports, FP_TRANSPORT_WIRE_MASK);
  assert_int_equal (p.volume.timeout_ms, 700);
  assert_int_equal (pool_between (&p, "timeout=700 transport=rdma ",
                                  "server = a\ntransport = tcp\n"
                                  "timeout = 500\n",
                                  "size=1G", &error),
                    0);
  assert_int_equal (p.volume.transports, FP_TRANSPORT_RDMA);
  assert_int_equal (p.volume.timeout_ms, 700);
  assert_int_equal (
      pool (&p, "server = a\nslab = 4M\nslab = 8M\n", "size=1G", &error),
      -EINVAL);
  assert_non_null (
      strstr (error.text, ": line 3: slab=8M: slab was given before"));
  assert_int_equal (
      pool (&p, "server = a\nslab = 4M\n", "size=1G slab=8M slab=8M", &error),
      -EINVAL);
  assert_non_null (strstr (error.text, "slab=8M: slab was given before"));

  assert_int_equal (pool (&p, "server = a\n\n\nserver = b\n\n\nserver = :::\n",
                          "size=1G", &error),
                    -EINVAL);
  assert_non_null (strstr (error.text, ": line 7: server=:::"));
  assert_int_equal (pool (&p, "server = a\nserver = a\n", "size=1G", &error),
                    -EINVAL);
  assert_non_null (strstr (error.text, ": line 2: server=a: given twice"));
  assert_int_equal (pool (&p, "server = a\nsize = 1G\n", "", &error), -EINVAL);
  assert_non_null (strstr (error.text, ": line 2: 'size'"));
  assert_int_equal (pool (&p, "[x]\nserver = a\n", "size=1G", &error),
                    -EINVAL);
  assert_non_null (strstr (error.text, ": line 2: 'x.server'"));
  assert_int_equal (pool (&p, "server a\n", "size=1G", &error), -EINVAL);
  assert_non_null (strstr (error.text, ": line 1: not KEY = VALUE"));
  assert_int_equal (pool (&p, "server = a\n\nserver b:7471\n", "", &error),
                    -EINVAL);
  assert_non_null (
      strstr (error.text,
              ": line 3: 'server b': not KEY = VALUE: a key has no blank"));
  /* The first of two errors is reported, with its own line. */
  assert_int_equal (pool (&p, "server = a\nserver b\nsize = 1G\n", "", &error),
                    -EINVAL);
  assert_non_null (strstr (error.text, ": line 2: not KEY = VALUE"));
  assert_int_equal (pool (&p, "# none\n", "size=1G", &error), -EINVAL);
  assert_non_null (strstr (error.text, "names no server"));

  assert_int_equal (setenv ("FARPAGE_POOLS_DIR", "/nowhere", 1), 0);
  assert_int_equal (parse (&p, "pool=rack7 size=1G", &error), -ENOENT);
  assert_non_null (
      strstr (error.text, "pool: /nowhere/rack7.conf: No such file"));
  assert_int_equal (unsetenv ("FARPAGE_POOLS_DIR"), 0);
  assert_int_equal (parse (&p, "pool= size=1G", &error), -EINVAL);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_defaults), cmocka_unit_test (test_copies),
    cmocka_unit_test (test_all),      cmocka_unit_test (test_members),
    cmocka_unit_test (test_pool),     cmocka_unit_test (test_words),
    cmocka_unit_test (test_follows),  cmocka_unit_test (test_bad),
    cmocka_unit_test (test_times),    cmocka_unit_test (test_bounds),
  };

  return RUN_TESTS (tests);
}
