/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_donor.c - start our own memory server on a Unix socket, on this
 * machine's loopback, and on its RDMA device if there is one.
 */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/bench/bench.h"
#include "transport/control/ctl_channel.h"

#define START_MS 60000
#define ANSWER_MS 5000
#define SLAB_MS 60000 /* to populate one more slab */
#define SLAB (64u << 20)

/* Get the name of the network device of an RDMA device's first port. */
static bool
port_netdev (const char *device, char out[64])
{
  char path[512];
  bool found = false;
  FILE *fp;

  snprintf (path, sizeof path,
            "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", device);
  fp = fopen (path, "re");
  if (fp == NULL)
    return false;
  if (fgets (out, 64, fp) != NULL) {
    out[strcspn (out, "\n")] = '\0';
    found = out[0] != '\0';
  }
  fclose (fp);
  return found;
}

static bool
netdev_address (const char *netdev, char out[FP_ADDR_MAX + 1])
{
  struct ifaddrs *all;
  bool found = false;

  if (getifaddrs (&all) == -1)
    return false;
  for (struct ifaddrs *a = all; a != NULL && !found; a = a->ifa_next) {
    if (a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET ||
        strcmp (a->ifa_name, netdev) != 0)
      continue;
    found = getnameinfo (a->ifa_addr, sizeof (struct sockaddr_in), out,
                         FP_ADDR_MAX + 1, NULL, 0, NI_NUMERICHOST) == 0;
  }
  freeifaddrs (all);
  return found;
}

bool
bench_rdma_address (char out[FP_ADDR_MAX + 1])
{
  DIR *dir = opendir ("/sys/class/infiniband");
  bool found = false;
  struct dirent *d;
  char netdev[64];

  if (dir == NULL)
    return false;
  while (!found && (d = readdir (dir)) != NULL) {
    found = d->d_name[0] != '.' && port_netdev (d->d_name, netdev) &&
            netdev_address (netdev, out);
  }
  closedir (dir);
  return found;
}

/* Read the server's addresses, one per line, in the order of --listen. */
static int
read_addresses (struct bench *b, const char *path)
{
  char *lines[] = { b->donor_unix, b->donor_tcp, b->donor_rdma };
  FILE *fp = fopen (path, "re");
  char line[FP_ADDR_MAX + 2];

  if (fp == NULL)
    return -errno;
  for (size_t i = 0; i < 3 && fgets (line, sizeof line, fp) != NULL; i++) {
    line[strcspn (line, "\n")] = '\0';
    strcpy (lines[i], line);
  }
  fclose (fp);
  return 0;
}

/* Wait until the server has populated its memory.  It listens before that. */
static int
wait_populated (struct bench *b, struct fp_error *error)
{
  FP_CLEANUP (fp_ctl_freep) struct fp_ctl *c = NULL;
  struct fp_hello q = { .version_min = FP_VERSION,
                        .version_max = FP_VERSION,
                        .transports = FP_TRANSPORT_WIRE_MASK };
  uint64_t until = fp_deadline_in_ms (SLAB_MS), left = UINT64_MAX;
  uint64_t answer = fp_deadline_in_ms (ANSWER_MS);
  struct timespec ms10 = { 0, 10000000 };
  static struct fp_hello_reply hello;
  static struct fp_stat_reply stat;
  struct fp_addr addr;
  const char *reason;
  int r;

  snprintf (q.name, sizeof q.name, "farpage:%ld", (long) getpid ());
  r = fp_addr_parse (&addr, b->donor_unix, &reason);
  if (r == 0)
    r = fp_uuid_generate (&q.client);
  if (r == 0)
    r = fp_ctl_open (&c, &addr, answer);
  if (r == 0)
    r = fp_ctl_hello (c, &q, &hello, answer);
  while (r == 0) {
    r = fp_ctl_stat (c, &stat, fp_deadline_in_ms (ANSWER_MS));
    if (r < 0 || stat.unpopulated == 0)
      break;
    if (stat.unpopulated < left) {
      left = stat.unpopulated;
      until = fp_deadline_in_ms (SLAB_MS);
    }
    bench_progress ("memory server: %llu MiB to populate",
                    (unsigned long long) left * (SLAB >> 20));
    if (bench_stop)
      return -EINTR;
    if (fp_deadline_passed (until))
      return fp_fail (error, -ETIMEDOUT,
                      "memserver: no slab populated for %d s", SLAB_MS / 1000);
    nanosleep (&ms10, NULL);
  }
  if (r < 0)
    fp_fail (error, r, "memserver: %s",
             c != NULL ? fp_ctl_why (c) : strerror (-r));
  else
    (void) fp_ctl_bye (c, &(struct fp_bye) { .discard = false },
                       fp_deadline_in_ms (ANSWER_MS));
  return r;
}

int
bench_donor_start (struct bench *b, struct fp_error *error)
{
  char program[4096], size[32], slab[32], listen_unix[128], path[128];
  char listen_rdma[FP_ADDR_MAX + 8];
  uint64_t deadline = fp_deadline_in_ms (START_MS);
  struct timespec ms10 = { 0, 10000000 };
  char *argv[20];
  int n = 0, r;

  if (b->donor != 0)
    return 0;
  bench_find ("memserver/farpage-memserver", BINDIR "/farpage-memserver",
              "farpage-memserver", program);
  /* Each engine layer and the plugin have a volume of their own. */
  snprintf (size, sizeof size, "%llu",
            (unsigned long long) ((b->size + SLAB - 1) / SLAB * SLAB * 5));
  snprintf (slab, sizeof slab, "%u", SLAB);
  snprintf (listen_unix, sizeof listen_unix, "unix:%s/memserver", b->dir);
  snprintf (path, sizeof path, "%s/addresses", b->dir);

  argv[n++] = program;
  argv[n++] = (char *) "--size";
  argv[n++] = size;
  argv[n++] = (char *) "--slab";
  argv[n++] = slab;
  argv[n++] = (char *) "--address-file";
  argv[n++] = path;
  /* Pages of the same size as the memcpy layer has. */
  argv[n++] = (char *) "--hugepages";
  argv[n++] = (char *) "off";
  argv[n++] = (char *) "--listen";
  argv[n++] = listen_unix;
  argv[n++] = (char *) "--listen";
  argv[n++] = (char *) "127.0.0.1:0";
  if (bench_rdma_address (b->donor_rdma)) {
    snprintf (listen_rdma, sizeof listen_rdma, "%s:0", b->donor_rdma);
    /* No TLS is needed: the data is worthless, and soon gone. */
    argv[n++] = (char *) "--insecure";
    argv[n++] = (char *) "--listen";
    argv[n++] = listen_rdma;
  }
  argv[n] = NULL;
  r = bench_spawn (b, "memserver", argv, &b->donor, error);
  while (r == 0 && access (path, R_OK) == -1) {
    bench_progress ("memory server: starting");
    r = bench_alive (b, "memserver", &b->donor, error);
    if (r < 0)
      return r;
    if (bench_stop || fp_deadline_passed (deadline))
      return fp_fail (error, -ETIMEDOUT, "memserver: not ready after %d s",
                      START_MS / 1000);
    nanosleep (&ms10, NULL);
  }
  if (r == 0) {
    r = read_addresses (b, path);
    if (r < 0)
      fp_fail (error, r, "%s: %s", path, strerror (-r));
  }
  return r == 0 ? wait_populated (b, error) : r;
}
