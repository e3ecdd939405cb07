/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_rdma.c - RDMA devices, as sysfs shows them. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/doctor/doctor.h"

#define CLASS "/sys/class/infiniband"
#define GIDS 256          /* most addresses of a port to read */
#define MTU_FOR_4096 4200 /* Ethernet MTU, with all headers of RoCE */
#define MTU_FOR_2048 2200

struct port {
  char device[64], number[16];
  bool active, ethernet;
  char state[64];
};

static void
read_port (const struct doctor *d, struct port *p, const char *device,
           const char *number)
{
  char line[64];

  memset (p, 0, sizeof *p);
  snprintf (p->device, sizeof p->device, "%s", device);
  snprintf (p->number, sizeof p->number, "%s", number);
  /* Such as '4: ACTIVE'. */
  (void) doctor_read (d, p->state, sizeof p->state, CLASS "/%s/ports/%s/state",
                      device, number);
  p->active = strncmp (p->state, "4:", 2) == 0;
  (void) doctor_read (d, line, sizeof line, CLASS "/%s/ports/%s/link_layer",
                      device, number);
  p->ethernet = strcmp (line, "Ethernet") == 0;
}

/* Call fn, unless NULL, for each port.  Return how many ports there are. */
static unsigned
each_port (struct doctor *d, void (*fn) (struct doctor *, const struct port *))
{
  char **devices, **ports, path[128];
  int i, k, n = doctor_names (d, &devices, CLASS), m;
  unsigned count = 0;
  struct port p;

  for (i = 0; i < n; i++) {
    snprintf (path, sizeof path, CLASS "/%.64s/ports", devices[i]);
    m = doctor_names (d, &ports, path);
    for (k = 0; k < m; k++, count++) {
      read_port (d, &p, devices[i], ports[k]);
      if (fn)
        fn (d, &p);
    }
    doctor_free_names (ports, m);
  }
  doctor_free_names (devices, n);
  return count;
}

static void
say_link (struct doctor *d, const struct port *p)
{
  if (p->active)
    doctor_say (d, DOCTOR_OK, "", "%s, port %s: active", p->device, p->number);
  else
    doctor_say (d, DOCTOR_PROBLEM,
                p->ethernet
                    ? "bring its network interface up ('ip link set ETH up'), "
                      "check the cable and the switch"
                    : "check the cable and the subnet manager (opensm)",
                "%s, port %s: %s", p->device, p->number,
                *p->state ? p->state : "cannot read its state");
}

void
doctor_rdma_device (struct doctor *d)
{
  if (!doctor_exists (d, "/sys"))
    doctor_say (d, DOCTOR_UNKNOWN, "", "cannot read /sys");
  else if (each_port (d, say_link) == 0)
    doctor_say (d, DOCTOR_WARNING,
                "without one, data goes over TCP, which uses the memory "
                "server's CPU; for soft-RoCE, run 'modprobe rdma_rxe' and "
                "'rdma link add rxe0 type rxe netdev ETH'",
                "none");
}

void
doctor_rdma_user (struct doctor *d)
{
  char **names;
  int n, i;
  unsigned verbs = 0;

  if (each_port (d, NULL) == 0) {
    doctor_say (d, DOCTOR_UNKNOWN, "", "there is no RDMA device");
    return;
  }
  n = doctor_names (d, &names, "/dev/infiniband");
  for (i = 0; i < n; i++)
    verbs += strncmp (names[i], "uverbs", 6) == 0;
  doctor_free_names (names, n);
  if (verbs == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "run 'modprobe ib_uverbs'; in a container: give it "
                "/dev/infiniband",
                "there is no /dev/infiniband/uverbsX");
  if (!doctor_exists (d, "/dev/infiniband/rdma_cm"))
    doctor_say (d, DOCTOR_PROBLEM,
                "run 'modprobe rdma_ucm'; in a container: give it "
                "/dev/infiniband",
                "there is no /dev/infiniband/rdma_cm");
  else if (verbs > 0)
    doctor_say (d, DOCTOR_OK, "", "verbs and connection manager are usable");
}

/* Count the addresses of a port, and those of them that stand for IPv4. */
static void
count_gids (const struct doctor *d, const struct port *p, unsigned *all,
            unsigned *v4)
{
  char gid[64];
  int i;

  *all = *v4 = 0;
  for (i = 0; i < GIDS; i++) {
    /* Some drivers answer with an error for unused ones. */
    if (!doctor_exists (d, CLASS "/%s/ports/%s/gids/%d", p->device, p->number,
                        i))
      break;
    if (doctor_read (d, gid, sizeof gid, CLASS "/%s/ports/%s/gids/%d",
                     p->device, p->number, i) < 0 ||
        strspn (gid, "0:") == strlen (gid))
      continue;
    (*all)++;
    *v4 += strncmp (gid, "0000:0000:0000:0000:0000:ffff:", 30) == 0;
  }
}

static void
say_gids (struct doctor *d, const struct port *p)
{
  unsigned all, v4;

  if (!p->active)
    return;
  count_gids (d, p, &all, &v4);
  if (all == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                p->ethernet ? "give its network interface an IP address"
                            : "check the subnet manager (opensm)",
                "%s, port %s has no address (GID)", p->device, p->number);
  else if (p->ethernet && v4 == 0)
    doctor_say (d, DOCTOR_WARNING,
                "give its network interface an IPv4 address, or use IPv6 "
                "addresses for the servers",
                "%s, port %s has no IPv4 address", p->device, p->number);
  else
    doctor_say (d, DOCTOR_OK, "", "%s, port %s: %u", p->device, p->number,
                all);
}

void
doctor_rdma_gid (struct doctor *d)
{
  if (each_port (d, say_gids) == 0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "there is no RDMA device");
}

static void
say_mtu (struct doctor *d, const struct port *p)
{
  char netdev[64];
  uint64_t mtu;
  unsigned payload;

  if (!p->active || !p->ethernet)
    return;
  if (doctor_read (d, netdev, sizeof netdev,
                   CLASS "/%s/ports/%s/gid_attrs/ndevs/0", p->device,
                   p->number) < 0 ||
      doctor_read_number (d, &mtu, "/sys/class/net/%s/mtu", netdev) < 0) {
    doctor_say (d, DOCTOR_UNKNOWN, "",
                "%s, port %s: its network interface is not known", p->device,
                p->number);
    return;
  }
  payload = mtu >= MTU_FOR_4096 ? 4096 : mtu >= MTU_FOR_2048 ? 2048 : 1024;
  if (payload < 4096)
    doctor_say (d, DOCTOR_WARNING,
                "if the switch allows it: run 'ip link set ETH mtu 9000', at "
                "both ends",
                "%s, port %s: %s has an MTU of %" PRIu64
                ", so a page of 4096 bytes goes in packets of %u",
                p->device, p->number, netdev, mtu, payload);
  else
    doctor_say (d, DOCTOR_OK, "", "%s, port %s: %s has an MTU of %" PRIu64,
                p->device, p->number, netdev, mtu);
}

void
doctor_rdma_mtu (struct doctor *d)
{
  unsigned before = d->nr;

  if (each_port (d, say_mtu) == 0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "there is no RDMA device");
  else if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "no active port on Ethernet");
}
