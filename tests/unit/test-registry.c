/* SPDX-License-Identifier: BSD-3-Clause */
/* test-registry.c - donors as JSON, and what etcdctl prints, with a script in
 * place of etcdctl.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <netinet/in.h>

#include <arpa/nameser.h>
#include <resolv.h>

#include "pool/registry.h"

#define UUID "00000000-0000-4000-8000-00000000000"
#define KEY(n) "p/donors/" UUID n
#define ID(n) "\"uuid\":\"" UUID n "\","
#define REST                                                                  \
  "\"name\":\"n\",\"domain\":\"r\",\"protocol\":2,\"slab\":4,\"total\":8,"    \
  "\"free\":2"
#define DONOR(n, addr) "{" ID (n) "\"addr\":\"" addr "\"," REST "}"

static struct fp_registry registry;
static struct fp_error error;
static char dir[] = "/tmp/farpage-test-registry.XXXXXX";

/* Put a script named etcdctl first on the PATH. */
static int
setup (void **state)
{
  char path[4200];

  (void) state;
  assert_non_null (mkdtemp (dir));
  snprintf (path, sizeof path, "%s:%s", dir, getenv ("PATH"));
  return setenv ("PATH", path, 1);
}

/* Let etcdctl be a shell script. */
static void
script (const char *body)
{
  char path[64];
  FILE *fp;

  snprintf (path, sizeof path, "%s/etcdctl", dir);
  fp = fopen (path, "w");
  assert_non_null (fp);
  fprintf (fp, "#!/bin/sh\n%s\n", body);
  assert_int_equal (fclose (fp), 0);
  assert_int_equal (chmod (path, 0755), 0);
}

struct kv {
  const char *key, *value;
};

static char *
put_base64 (char *out, const char *text, size_t n)
{
  int m = b64_ntop ((const unsigned char *) text, n, out, 2 * n + 8);

  assert_true (m >= 0);
  return out + m;
}

/* Let etcdctl print these keys, as far as one with no key.  If more is 1, each
 * value has the NUL of its string, too.
 */
static void
prints (const struct kv *kv, size_t more)
{
  static char body[8192];
  unsigned revision = 0;
  char *out = body;

  out += sprintf (out, "[ \"$*\" = '--write-out=json get --prefix p/' ] || "
                       "exit 9\n[ $ETCDCTL_API = 3 ] || exit 8\n"
                       "echo '{\"level\":\"warn\"}' >&2\n"
                       "echo '{\"header\":{},\"kvs\":[");
  for (bool first = true; kv->key != NULL; kv++, first = false) {
    out += sprintf (out, "%s{\"key\":\"", first ? "" : ",");
    out = put_base64 (out, kv->key, strlen (kv->key));
    out += sprintf (out, "\",\"mod_revision\":%u,\"value\":\"", ++revision);
    out = put_base64 (out, kv->value, strlen (kv->value) + more);
    out += sprintf (out, "\"}");
  }
  sprintf (out, "]}'");
  script (body);
}

static int
cleanup (void **state)
{
  char path[64];

  (void) state;
  snprintf (path, sizeof path, "%s/etcdctl", dir);
  unlink (path);
  return rmdir (dir);
}

static void
reads (size_t nr)
{
  if (fp_registry_read (&registry, "p", FP_REGISTRY_NEWEST, &error) < 0)
    fail_msg ("%s", error.text);
  assert_int_equal (registry.nr, nr);
}

static void
test_read (void **state)
{
  static const struct kv kvs[] = {
    { KEY ("a"), DONOR ("a", "x:7") },
    { KEY ("b"), "{" ID ("b") "\"addr\":\"B\",\"pressed\":true,"
                              "\"later\":[1]," REST "}" },
    { "p/cordon/b:7471", "cordoned" },
    { "p/cordon/down:7", "" },
    { "p/cordon/a b", "" },
    { "p/other", DONOR ("c", "c") },
    { NULL, NULL },
  };

  (void) state;
  prints (kvs, 0);
  reads (2);
  assert_string_equal (registry.donors[0].addr, "b:7471");
  assert_true (registry.donors[0].cordoned && registry.donors[0].pressed);
  assert_string_equal (registry.donors[1].addr, "x:7");
  assert_string_equal (registry.donors[1].domain, "r");
  assert_int_equal (registry.donors[1].free, 2);
  assert_false (registry.donors[1].cordoned || registry.donors[1].pressed);
  assert_int_equal (registry.nr_cordons, 2);
  fp_registry_free (&registry);
  script ("echo '{\"header\":{}}'");
  reads (0);
  fp_registry_free (&registry);
}

/* A donor counts only under its own key, and only one at each address. */
static void
test_keys (void **state)
{
  static const struct kv kvs[] = {
    { KEY ("a"), DONOR ("b", "b") },
    { "p/donors/x", DONOR ("c", "c") },
    { "p/x/donors/" UUID "d", DONOR ("d", "d") },
    { "p/cordon/e:7471", "{}" },
    { KEY ("e"), DONOR ("e", "E") },
    { KEY ("f"), DONOR ("f", "e") }, /* written last */
    { KEY ("1"), DONOR ("1", "g") },
    { KEY ("0"), DONOR ("0", "g") },
    { NULL, NULL },
  };

  (void) state;
  prints (kvs, 0);
  reads (2);
  assert_string_equal (registry.donors[0].addr, "e:7471");
  assert_int_equal (registry.donors[0].uuid.bytes[15], 0x0f);
  assert_true (registry.donors[0].cordoned);
  assert_int_equal (registry.donors[1].uuid.bytes[15], 0);
  fp_registry_free (&registry);
}

/* A value that is not a valid donor is ignored. */
static void
test_bad_values (void **state)
{
  static const char *const bad[] = {
    "{\"addr\":\"a\"," REST "}",
    "{" ID ("a") "\"addr\":\"a\"}",
    DONOR ("a", "unix:/x"),
    DONOR ("a", "a b"),
    DONOR ("a", "a:0"),
    DONOR ("a", "0.0.0.0:7"),
    DONOR ("a", "[0::0]:7"),
    DONOR ("a", "127.0.0.2:7"),
    DONOR ("a", "[::1]:7"),
    DONOR ("a", "LocalHost"),
    DONOR ("a", "a.localhost"),
    DONOR ("a", "localhost."),
    DONOR ("a", "ip6-loopback:7"),
    DONOR ("a", "127.1:7"),
    DONOR ("a", "0:7"),
    DONOR ("a", "0x7f000001"),
    "{" ID ("a") "\"addr\":\"a\",\"name\":\"a "
                 "b\",\"domain\":\"\",\"protocol\":2,\"slab\":4,"
                 "\"total\":8,\"free\":2}",
    "{" ID ("a") "\"addr\":\"a\",\"name\":\"n\",\"domain\":\"\",\"protocol\":"
                 "2,\"slab\":4,"
                 "\"total\":8,\"free\":-2}",
    "{" ID ("a") "\"addr\":\"a\",\"name\":\"n\",\"domain\":\"\",\"protocol\":"
                 "2,\"slab\":3,"
                 "\"total\":8,\"free\":2}",
    "{" ID ("a") "\"addr\":\"a\",\"name\":\"n\",\"domain\":\"\",\"protocol\":"
                 "2,\"slab\":4,"
                 "\"total\":8,\"free\":\"2\"}",
    "{" ID ("a") "\"addr\":\"a\",\"name\":\"n\",\"domain\":\"\",\"protocol\":"
                 "2,\"slab\":4,"
                 "\"total\":1125899906842625,\"free\":2}",
    "{" ID ("a") "\"addr\":\"a\",\"name\":\"n\",\"domain\":\"\",\"slab\":4,"
                 "\"total\":8,\"free\":2}",
    /* Other keys and their values, as etcdctl prints them without JSON. */
    "x\n" KEY ("b") "\n" DONOR ("b", "b") "\np/cordon/b:7471\nx",
    "[1]",
    "{",
  };

  (void) state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const struct kv kvs[] = { { KEY ("a"), bad[i] }, { NULL, NULL } };

    prints (kvs, 0);
    reads (0);
    fp_registry_free (&registry);
  }
  prints ((struct kv[]) { { KEY ("a"), DONOR ("a", "a") }, { NULL, NULL } },
          0);
  reads (1);
  fp_registry_free (&registry);
  prints ((struct kv[]) { { KEY ("a"), DONOR ("a", "a") }, { NULL, NULL } },
          1);
  reads (0);
  fp_registry_free (&registry);
}

static void
test_and_back (void **state)
{
  struct fp_donor d = { .addr = "donor:7",
                        .name = "n",
                        .domain = "r",
                        .protocol = FP_VERSION,
                        .slab = 4,
                        .total = UINT64_C (1) << 50,
                        .free = 2,
                        .draining = true,
                        .uuid.bytes[0] = 7 };
  struct fp_donor e;
  struct json_object *o = fp_donor_to_json (&d);

  (void) state;
  assert_int_equal (fp_donor_from_json (&e, o), 0);
  json_object_put (o);
  assert_true (fp_uuid_eq (&d.uuid, &e.uuid));
  assert_string_equal (d.addr, e.addr);
  assert_int_equal (e.total, UINT64_C (1) << 50);
  assert_int_equal (e.protocol, FP_VERSION);
  assert_true (e.draining && !e.pressed);
}

static void
refused (int r, const char *prefix, const char *says)
{
  assert_int_equal (
      fp_registry_read (&registry, prefix, FP_REGISTRY_NEWEST, &error), r);
  fp_registry_free (&registry);
  if (strstr (error.text, says) == NULL)
    fail_msg ("no '%s': %s", says, error.text);
}

static void
test_refused (void **state)
{
  (void) state;
  setenv ("ETCDCTL_ENDPOINTS", "http://e:1", 1);
  script ("echo '{\"level\":\"warn\"}' >&2; echo 'Error: no leader' >&2;"
          "exit 1");
  refused (-EIO, "p", "etcdctl: no leader (ETCDCTL_ENDPOINTS=http://e:1)");
  unsetenv ("ETCDCTL_ENDPOINTS");
  refused (-EIO, "p", "etcdctl: no leader (ETCDCTL_ENDPOINTS is not set)");
  script ("echo nonsense");
  refused (-EPROTO, "p", "no JSON");
  script (":");
  refused (-EPROTO, "p", "no JSON");
  script ("yes");
  refused (-E2BIG, "p", "more than 64 MiB");
  script ("exit 127");
  refused (-ENOENT, "p", "install");
  script ("exit 124");
  refused (-ETIMEDOUT, "p", "within 10 s");
  refused (-EINVAL, "", "cannot be a prefix");
  refused (-EINVAL, "a'b", "cannot be a prefix");
  refused (-EINVAL, "--from-key", "cannot be a prefix");
  refused (-EINVAL, "p/", "cannot be a prefix");
  refused (-EINVAL, "a//b", "cannot be a prefix");
}

/* Without a leader etcd answers if an older state will do. */
static void
test_old (void **state)
{
  (void) state;
  script ("[ \"$3\" = --consistency=s ] || exit 1\necho '{}'");
  refused (-EIO, "p", "etcdctl");
  assert_int_equal (
      fp_registry_read (&registry, "p", FP_REGISTRY_OLD_TOO, &error), 0);
  fp_registry_free (&registry);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_read),       cmocka_unit_test (test_keys),
    cmocka_unit_test (test_bad_values), cmocka_unit_test (test_and_back),
    cmocka_unit_test (test_refused),    cmocka_unit_test (test_old),
  };

  return cmocka_run_group_tests (tests, setup, cleanup);
}
