/* SPDX-License-Identifier: BSD-3-Clause */
/* test-doctor.c - each check of 'farpage doctor', over files of a made-up
 * machine: with nothing there, with all well, and with each problem.
 */

#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/doctor/doctor.h"

static char root[64];
static struct doctor d;

static int
remove_one (const char *path, const struct stat *st, int flag, struct FTW *f)
{
  (void) st;
  (void) flag;
  (void) f;
  return remove (path);
}

static void
put (const char *name, const char *text)
{
  char path[512], *p;
  FILE *fp;

  snprintf (path, sizeof path, "%s%s", root, name);
  for (p = strchr (path + 1, '/'); p; p = strchr (p + 1, '/')) {
    *p = '\0';
    if (mkdir (path, 0700) == -1)
      assert_int_equal (errno, EEXIST);
    *p = '/';
  }
  fp = fopen (path, "w");
  assert_non_null (fp);
  assert_true (fprintf (fp, "%s\n", text) > 0);
  assert_int_equal (fclose (fp), 0);
}

static void
drop (const char *name)
{
  char path[512];

  snprintf (path, sizeof path, "%s%s", root, name);
  assert_int_equal (nftw (path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static int netlink_says;

static int
netlink (struct fp_error *error)
{
  return fp_fail (error, netlink_says, "no such family");
}

static int run_says;
static const char *run_prints;

static int
run (char *out, size_t size, char *const argv[])
{
  (void) argv;
  snprintf (out, size, "%s", run_prints);
  return run_says;
}

static int
setup (void **state)
{
  (void) state;
  strcpy (root, "/tmp/farpage-XXXXXX");
  if (mkdtemp (root) == NULL)
    return -1;
  memset (&d, 0, sizeof d);
  d.root = root;
  d.netlink = netlink;
  d.run = run;
  d.plugin_path = root;
  netlink_says = run_says = 0;
  run_prints = "";
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  return nftw (root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Expect a finding with verdict v and this text, and none that is worse.  Each
 * bad finding has a remedy, and no good one has.
 */
static void
finds (const char *check, enum verdict v, const char *text)
{
  unsigned i;

  d.nr = 0;
  assert_true (doctor_examine (&d, check));
  for (i = 0; i < d.nr; i++) {
    if (d.findings[i].verdict == DOCTOR_PROBLEM ||
        d.findings[i].verdict == DOCTOR_WARNING)
      assert_true (*d.findings[i].remedy);
    else if (d.findings[i].verdict == DOCTOR_OK)
      assert_false (*d.findings[i].remedy);
    if (d.findings[i].verdict == v && strstr (d.findings[i].what, text))
      break;
  }
  if (i == d.nr) {
    for (i = 0; i < d.nr; i++)
      print_message ("%s: %s: %s\n", check,
                     doctor_verdict_name (d.findings[i].verdict),
                     d.findings[i].what);
    fail_msg ("%s does not find '%s'", check, text);
  }
  assert_true (doctor_worst (&d) <= v);
}

/* No file exists, not even /proc and /sys: no check may stumble. */
static void
test_nothing (void **state)
{
  (void) state;
  netlink_says = -EPERM;
  run_says = -ENOENT;
  assert_true (doctor_examine (&d, NULL));
  assert_true (d.nr >= 21);
  assert_false (doctor_examine (&d, "no-such-check"));
  finds ("kernel", DOCTOR_UNKNOWN, "/proc");
  finds ("nbd", DOCTOR_UNKNOWN, "/sys");
  finds ("clock", DOCTOR_UNKNOWN, "");
  finds ("rdma-device", DOCTOR_UNKNOWN, "/sys");
  finds ("memlock", DOCTOR_UNKNOWN, "");
  finds ("page-cluster", DOCTOR_UNKNOWN, "");
}

static void
test_kernel (void **state)
{
  (void) state;
  put ("/proc/sys/kernel/osrelease", "6.1.0-56-amd64");
  finds ("kernel", DOCTOR_OK, "6.1.0-56");
  put ("/proc/sys/kernel/osrelease", "5.3.0");
  finds ("kernel", DOCTOR_OK, "5.3.0");
  put ("/proc/sys/kernel/osrelease", "5.2.21");
  finds ("kernel", DOCTOR_PROBLEM, "5.2.21");
  put ("/proc/sys/kernel/osrelease", "experimental");
  finds ("kernel", DOCTOR_UNKNOWN, "experimental");
}

static void
test_nbd (void **state)
{
  static const char dep[] = "/lib/modules/6.1.0/modules.dep";
  static const char config[] = "/boot/config-6.1.0";

  (void) state;
  put ("/proc/sys/kernel/osrelease", "6.1.0");
  put ("/sys/module/x/refcnt", "0");
  finds ("nbd", DOCTOR_UNKNOWN, "not here");
  finds ("nbd-devices", DOCTOR_UNKNOWN, "not loaded");
  put (dep, "kernel/drivers/block/loop.ko:");
  finds ("nbd", DOCTOR_PROBLEM, "has no module nbd");
  put (dep, "kernel/drivers/block/loop.ko:\n"
            "kernel/drivers/block/nbd.ko.xz:");
  finds ("nbd", DOCTOR_WARNING, "not loaded");
  drop (dep);
  put (config, "CONFIG_BLK_DEV_NBD=m");
  finds ("nbd", DOCTOR_UNKNOWN, "not here");
  put (config, "# CONFIG_BLK_DEV_NBD is not set");
  finds ("nbd", DOCTOR_PROBLEM, "has no module nbd");

  put ("/sys/module/nbd/parameters/max_part", "0");
  finds ("nbd", DOCTOR_OK, "netlink");
  netlink_says = -ENODEV;
  finds ("nbd", DOCTOR_PROBLEM, "netlink");
  netlink_says = -EPERM;
  finds ("nbd", DOCTOR_UNKNOWN, "no such family");
}

static void
test_nbd_devices (void **state)
{
  (void) state;
  put ("/sys/module/nbd/parameters/max_part", "0");
  put ("/sys/block/sda/size", "1000");
  finds ("nbd-devices", DOCTOR_PROBLEM, "nbds_max=0");
  put ("/sys/block/nbd0/size", "0");
  put ("/sys/block/nbd1/size", "2048");
  finds ("nbd-devices", DOCTOR_PROBLEM, "/dev none");
  put ("/dev/nbd0", "");
  put ("/dev/nbd1", "");
  finds ("nbd-devices", DOCTOR_OK, "1 of 2 are free");
  put ("/sys/block/nbd0/pid", "77");
  finds ("nbd-devices", DOCTOR_PROBLEM, "all 2 are in use");
  drop ("/sys/block/nbd0/pid");
  put ("/sys/module/nbd/parameters/max_part", "16");
  finds ("nbd-devices", DOCTOR_WARNING, "max_part=16");
}

static void
test_clock (void **state)
{
  static const char name[] = "/sys/devices/system/clocksource/clocksource0/"
                             "current_clocksource";

  (void) state;
  put (name, "tsc");
  finds ("clock", DOCTOR_OK, "tsc");
  put (name, "hpet");
  finds ("clock", DOCTOR_WARNING, "hpet");
}

#define PORT "/sys/class/infiniband/rxe0/ports/1"

static void
test_rdma (void **state)
{
  (void) state;
  put ("/sys/module/x/refcnt", "0");
  finds ("rdma-device", DOCTOR_WARNING, "none");
  finds ("rdma-user", DOCTOR_UNKNOWN, "no RDMA device");
  finds ("rdma-gid", DOCTOR_UNKNOWN, "no RDMA device");
  finds ("rdma-mtu", DOCTOR_UNKNOWN, "no RDMA device");

  put (PORT "/state", "1: DOWN");
  put (PORT "/link_layer", "Ethernet");
  finds ("rdma-device", DOCTOR_PROBLEM, "rxe0, port 1: 1: DOWN");
  finds ("rdma-mtu", DOCTOR_OK, "no active port");
  put (PORT "/state", "4: ACTIVE");
  finds ("rdma-device", DOCTOR_OK, "rxe0, port 1: active");

  finds ("rdma-user", DOCTOR_PROBLEM, "uverbs");
  put ("/dev/infiniband/uverbs0", "");
  finds ("rdma-user", DOCTOR_PROBLEM, "rdma_cm");
  put ("/dev/infiniband/rdma_cm", "");
  finds ("rdma-user", DOCTOR_OK, "");

  finds ("rdma-gid", DOCTOR_PROBLEM, "no address");
  put (PORT "/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000");
  finds ("rdma-gid", DOCTOR_PROBLEM, "no address");
  put (PORT "/gids/0", "fe80:0000:0000:0000:0200:00ff:fe00:0001");
  finds ("rdma-gid", DOCTOR_WARNING, "no IPv4");
  put (PORT "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
  finds ("rdma-gid", DOCTOR_OK, "rxe0, port 1: 2");

  finds ("rdma-mtu", DOCTOR_UNKNOWN, "not known");
  put (PORT "/gid_attrs/ndevs/0", "eth3");
  put ("/sys/class/net/eth3/mtu", "1500");
  finds ("rdma-mtu", DOCTOR_WARNING, "packets of 1024");
  put ("/sys/class/net/eth3/mtu", "2500");
  finds ("rdma-mtu", DOCTOR_WARNING, "packets of 2048");
  put ("/sys/class/net/eth3/mtu", "9000");
  finds ("rdma-mtu", DOCTOR_OK, "9000");
}

static void
test_memlock (void **state)
{
  (void) state;
  put ("/proc/self/status", "CapEff:\t0000000000000000");
  put ("/proc/self/limits",
       "Max locked memory         8388608              8388608     bytes");
  finds ("memlock", DOCTOR_WARNING, "may lock 8M");
  put ("/proc/self/limits",
       "Max locked memory         1073741824           unlimited   bytes");
  finds ("memlock", DOCTOR_OK, "1G");
  put ("/proc/self/limits",
       "Max locked memory         unlimited            unlimited   bytes");
  finds ("memlock", DOCTOR_OK, "unlimited");
  drop ("/proc/self/limits");
  put ("/proc/self/status", "CapEff:\t0000000000004000");
  finds ("memlock", DOCTOR_OK, "no limit");
}

static void
test_memlock_units (void **state)
{
  static const char lib[] = "/usr/lib/systemd/system/farpage-m.service";
  static const char drop_in[] = "/etc/systemd/system/farpage-m.service.d/x";

  (void) state;
  finds ("memlock-units", DOCTOR_OK, "no service");
  put ("/usr/lib/systemd/system/other.service", "[Service]\nUser=x");
  finds ("memlock-units", DOCTOR_OK, "no service");
  put (lib, "[Service]\nExecStart=/x");
  finds ("memlock-units", DOCTOR_OK, "runs as root");
  put (lib, "[Service]\nUser=farpage");
  finds ("memlock-units", DOCTOR_PROBLEM, "almost nothing");
  put (lib, "[Service]\nUser=farpage\nLimitMEMLOCK=1G");
  finds ("memlock-units", DOCTOR_WARNING, "1G at most");
  put (drop_in, "[Service]\nLimitMEMLOCK=infinity");
  finds ("memlock-units", DOCTOR_OK, "farpage-m.service: no limit");
  /* An administrator has overridden the unit. */
  put ("/etc/systemd/system/farpage-m.service", "[Service]\nDynamicUser=yes");
  drop (drop_in);
  finds ("memlock-units", DOCTOR_PROBLEM, "almost nothing");
}

static void
test_pages (void **state)
{
  static const char dir[] = "/sys/kernel/mm/hugepages/hugepages-2048kB";
  char all[128], left[128];

  (void) state;
  snprintf (all, sizeof all, "%s/nr_hugepages", dir);
  snprintf (left, sizeof left, "%s/free_hugepages", dir);
  finds ("hugepages", DOCTOR_UNKNOWN, "");
  put (all, "0");
  put (left, "0");
  finds ("hugepages", DOCTOR_OK, "none");
  put ("/proc/12/comm", "farpage-memserv");
  finds ("hugepages", DOCTOR_WARNING, "none are reserved");
  put (all, "512");
  put (left, "512");
  finds ("hugepages", DOCTOR_WARNING, "1G are reserved");
  put (left, "256");
  finds ("hugepages", DOCTOR_OK, "1G, 512M of it free");

  put ("/proc/sys/vm/page-cluster", "3");
  finds ("page-cluster", DOCTOR_OK, "8 pages");
  put ("/proc/sys/vm/page-cluster", "5");
  finds ("page-cluster", DOCTOR_WARNING, "brings 31 more");

  finds ("zswap", DOCTOR_OK, "none");
  put ("/sys/module/zswap/parameters/enabled", "N");
  finds ("zswap", DOCTOR_OK, "off");
  put ("/sys/module/zswap/parameters/enabled", "Y");
  finds ("zswap", DOCTOR_OK, "on");
  put ("/sys/module/zswap/parameters/max_pool_percent", "80");
  finds ("zswap", DOCTOR_WARNING, "80 %");
}

static void
test_programs (void **state)
{
  (void) state;
  run_prints = "nbdkit 1.32.5 (farpage)\n";
  finds ("nbdkit", DOCTOR_OK, "1.32.5");
  run_prints = "nbdkit 1.30.1\n";
  finds ("nbdkit", DOCTOR_PROBLEM, "1.30.1");
  run_prints = "something\n";
  finds ("nbdkit", DOCTOR_UNKNOWN, "something");
  run_says = 1;
  finds ("nbdkit", DOCTOR_PROBLEM, "something");
  finds ("plugin", DOCTOR_PROBLEM, "cannot load");
  run_says = -ENOENT;
  finds ("nbdkit", DOCTOR_PROBLEM, "not found in PATH");
  run_says = 0;
  run_prints =
      "path=x\nversion=" PACKAGE_VERSION "\nfarpage_transports=shm,tcp\n";
  finds ("plugin", DOCTOR_OK, "over shm,tcp");
  run_prints = "version=0.0.7\n";
  finds ("plugin", DOCTOR_WARNING, "0.0.7");
  d.plugin_path = "/nonexistent/plugin.so";
  finds ("plugin", DOCTOR_PROBLEM, "No such file");

  char *path = strdup (getenv ("PATH"));
  assert_non_null (path);
  assert_int_equal (setenv ("PATH", "/nonexistent:/neither", 1), 0);
  finds ("tools", DOCTOR_WARNING, "mkswap is not in PATH");
  assert_int_equal (setenv ("PATH", path, 1), 0);
  free (path);
}

/* ---- attached devices ---- */

static char *plugin_args[] = { "server=a", "timeout=2000" };

static const char status[] =
    "{ 'version': 2, 'io_flusher': true, 'realtime': true,"
    " 'locked_bytes': 4096,"
    " 'volume': { 'slab_size': 1048576, 'copies': 2,"
    " 'extents': 4, 'extents_allocated': 4, 'extents_lost': 0,"
    " 'extents_degraded': 0, 'members_version': 1, 'fenced': false,"
    " 'fenced_by': '', 'frozen': false }, 'servers': [ { 'addr': 'a:7471',"
    " 'state': 'up', 'why': '', 'current': true, 'joining': false,"
    " 'slabs_free': 0, 'slabs_wanted': 0 } ] }";

/* Make one device: all is well, except that its status has `to` for `from`. */
static struct doctor_volume *
attached (const char *from, const char *to)
{
  static struct doctor_volume v;
  struct json_object *o;
  struct fp_error error;
  char text[1024];
  const char *p = from ? strstr (status, from) : NULL;

  free (v.plugin);
  memset (&v, 0, sizeof v);
  v.st = (struct state) { .index = 3,
                          .supervisor = 20,
                          .nbdkit = 21,
                          .timeout = 30,
                          .dead_timeout = 120,
                          .swap = true,
                          .nr_args = 2,
                          .args = plugin_args };
  v.supervised = true;
  if (from)
    assert_non_null (p);
  snprintf (text, sizeof text, "%.*s%s%s",
            (int) (p ? p - status : (long) strlen (status)), status,
            to ? to : "", p ? p + strlen (from) : "");
  for (char *c = text; *c; c++)
    if (*c == '\'')
      *c = '"';
  o = json_tokener_parse (text);
  assert_int_equal (plugin_status_parse (&v.plugin, o, &error), 0);
  json_object_put (o);
  d.volumes = &v;
  d.nr_volumes = 1;
  return &v;
}

static void
test_volumes (void **state)
{
  struct doctor_volume *v;

  (void) state;
  finds ("volumes", DOCTOR_OK, "nothing");
  attached (NULL, NULL);
  finds ("volumes", DOCTOR_OK, "/dev/nbd3");
  attached ("'fenced': false", "'fenced': true");
  finds ("volumes", DOCTOR_PROBLEM, "taken the volume over");
  attached ("'extents_lost': 0", "'extents_lost': 2");
  finds ("volumes", DOCTOR_PROBLEM, "2 extents are lost");
  attached ("'extents_degraded': 0", "'extents_degraded': 3");
  finds ("volumes", DOCTOR_WARNING, "3 extents have fewer copies");
  attached ("'frozen': false", "'frozen': true");
  finds ("volumes", DOCTOR_PROBLEM, "frozen");
  attached ("'state': 'up'", "'state': 'lost'");
  finds ("volumes", DOCTOR_PROBLEM, "a:7471 is lost");
  attached ("'current': true", "'current': false");
  finds ("volumes", DOCTOR_WARNING, "is stale");
  attached ("'slabs_wanted': 0", "'slabs_wanted': 7");
  finds ("volumes", DOCTOR_WARNING, "short of memory");
  v = attached (NULL, NULL);
  v->supervised = false;
  finds ("volumes", DOCTOR_PROBLEM, "supervisor is dead");
  v = attached (NULL, NULL);
  free (v->plugin);
  v->plugin = NULL;
  strcpy (v->plugin_error.text, "because");
  finds ("volumes", DOCTOR_PROBLEM, "no status from its plugin: because");
  assert_true (doctor_examine (&d, NULL));
  v = attached (NULL, NULL);
  strcpy (v->state_error.text, "cannot read it");
  finds ("volumes", DOCTOR_UNKNOWN, "cannot read what is attached");
  finds ("swap", DOCTOR_UNKNOWN, "cannot read what is attached");
}

static void
test_timeouts (void **state)
{
  struct doctor_volume *v;

  (void) state;
  v = attached (NULL, NULL);
  finds ("timeouts", DOCTOR_OK, "plugin 2000 ms, kernel 30000 ms");
  v->st.timeout = 3;
  finds ("timeouts", DOCTOR_PROBLEM, "twice as long");
  v->st.timeout = 130;
  finds ("timeouts", DOCTOR_PROBLEM, "without nbdkit");
  v->st.timeout = 30;
  /* Another program has changed it since. */
  put ("/sys/block/nbd3/queue/io_timeout", "3500");
  finds ("timeouts", DOCTOR_PROBLEM, "after 3500 ms");
  put ("/sys/block/nbd3/queue/io_timeout", "60000");
  finds ("timeouts", DOCTOR_WARNING, "'farpage attach' set 30 s");
  v->st.nr_args = 1; /* without timeout=: the plugin's */
  put ("/sys/block/nbd3/queue/io_timeout", "30000");
  finds ("timeouts", DOCTOR_OK, "plugin 2000 ms");
  /* The plugin's own status overrides its arguments. */
  v = attached ("'copies': 2", "'copies': 2, 'timeout_ms': 16000");
  finds ("timeouts", DOCTOR_PROBLEM, "after 16000 ms");
  v = attached ("'copies': 2", "'copies': 2, 'await_ms': 30000");
  finds ("timeouts", DOCTOR_PROBLEM, "holds a request for up to 30000 ms");
}

#define SWAPS                                                                 \
  "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 100 0 1\n"

static void
test_swap (void **state)
{
  struct doctor_volume *v;

  (void) state;
  attached (NULL, NULL);
  put ("/proc/swaps", SWAPS);
  finds ("swap", DOCTOR_OK, "no attached device is swapped to");
  finds ("swap-room", DOCTOR_OK, "no attached device is swapped to");
  put ("/proc/swaps", SWAPS "/dev/nbd3 partition 4096 1000 2");
  finds ("swap", DOCTOR_OK, "with 2 copies");
  attached ("'copies': 2", "'copies': 1");
  finds ("swap", DOCTOR_WARNING, "has one copy");
  attached ("'io_flusher': true", "'io_flusher': false");
  finds ("swap", DOCTOR_WARNING, "IO_FLUSHER");
  attached ("'realtime': true", "'realtime': false");
  finds ("swap", DOCTOR_WARNING, "no real-time priority");
  attached ("'locked_bytes': 4096", "'locked_bytes': 0");
  finds ("swap", DOCTOR_PROBLEM, "not locked");
  attached ("'extents_allocated': 4", "'extents_allocated': 1");
  finds ("swap", DOCTOR_PROBLEM, "6M of it has no memory yet");
  v = attached (NULL, NULL);
  v->st.swap = false;
  finds ("swap", DOCTOR_WARNING, "not attached for swap");

  put ("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    950 kB");
  finds ("swap-room", DOCTOR_OK, "1000K is swapped out");
  put ("/proc/meminfo", "MemAvailable:    800 kB");
  finds ("swap-room", DOCTOR_WARNING, "would be refused");
}

static void
test_kill_order (void **state)
{
  (void) state;
  attached (NULL, NULL);
  put ("/proc/20/oom_score_adj", "-1000");
  put ("/proc/21/oom_score_adj", "-1000");
  put ("/proc/20/cgroup", "0::/user.slice/user-0.slice/session-2.scope");
  put ("/proc/21/cgroup", "0::/system.slice/farpage@x.service");
  finds ("kill-order", DOCTOR_OK, "no systemd");
  put ("/run/systemd/system/x", "");
  finds ("kill-order", DOCTOR_PROBLEM,
         "supervisor is part of a login (session-2.scope)");
  put ("/proc/20/cgroup", "0::/system.slice/cron.service");
  finds ("kill-order", DOCTOR_WARNING, "part of cron.service");
  put ("/proc/20/cgroup", "0::/system.slice/farpage@x.service");
  finds ("kill-order", DOCTOR_OK, "nothing kills them");
  put ("/proc/21/oom_score_adj", "0");
  finds ("kill-order", DOCTOR_PROBLEM, "its nbdkit (oom_score_adj 0)");
}

int
main (void)
{
#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_nothing),     TEST (test_kernel),        TEST (test_nbd),
    TEST (test_nbd_devices), TEST (test_clock),         TEST (test_rdma),
    TEST (test_memlock),     TEST (test_memlock_units), TEST (test_pages),
    TEST (test_programs),    TEST (test_volumes),       TEST (test_timeouts),
    TEST (test_swap),        TEST (test_kill_order),
  };

  return RUN_TESTS (tests);
}
