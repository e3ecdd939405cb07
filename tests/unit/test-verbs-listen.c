/* SPDX-License-Identifier: BSD-3-Clause */
/* test-verbs-listen.c - a flood of requests to connect over RDMA does not hold
 * the server's event loop: the listener handles 16 events a call.
 *
 * This program needs no device.  It defines the functions of librdmacm and
 * libibverbs that the listener calls here, and a definition in the program
 * goes before one in a library.
 */

#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/verbs_cm.h"
#include "transport/verbs_server.h"

#define FLOOD 1000
#define TURN 16  /* same as in verbs_listen.c */
#define CALLS 63 /* FLOOD / TURN, rounded up */

static struct fp_verbs_listener *listener;

/* The state of the fake libraries, and how often each was called. */
static struct {
  struct rdma_event_channel channel; /* counts the events that wait */
  struct rdma_cm_id own;             /* the listener's */
  struct rdma_cm_id ids[FLOOD];      /* one for each request */
  struct rdma_cm_event events[FLOOD];
  struct rdma_cm_event *latest; /* last event taken */
  unsigned added, taken, acked, rejected, destroyed;
  unsigned told; /* calls that report the listener's device as gone */
  bool listens, device_gone;
} fake;

/* ---- librdmacm and libibverbs ---- */

struct ibv_device **
ibv_get_device_list (int *nr)
{
  static struct ibv_device *list[2];

  *nr = 1;
  return list;
}

void
ibv_free_device_list (struct ibv_device **list)
{
  (void) list;
}

/* Make a channel that is readable while events wait in it. */
struct rdma_event_channel *
rdma_create_event_channel (void)
{
  fake.channel.fd = eventfd (0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return fake.channel.fd == -1 ? NULL : &fake.channel;
}

void
rdma_destroy_event_channel (struct rdma_event_channel *channel)
{
  close (channel->fd);
}

int
rdma_create_id (struct rdma_event_channel *channel, struct rdma_cm_id **id,
                void *context, enum rdma_port_space ps)
{
  if (fake.device_gone) {
    errno = ENODEV;
    return -1;
  }
  fake.own.channel = channel;
  fake.own.context = context;
  fake.own.ps = ps;
  *id = &fake.own;
  return 0;
}

int
rdma_bind_addr (struct rdma_cm_id *id, struct sockaddr *addr)
{
  assert_int_equal (addr->sa_family, AF_INET);
  memcpy (&id->route.addr.src_sin, addr, sizeof (struct sockaddr_in));
  return 0;
}

int
rdma_listen (struct rdma_cm_id *id, int backlog)
{
  (void) backlog;
  assert_ptr_equal (id, &fake.own);
  fake.listens = true;
  return 0;
}

/* Take the next event.  EAGAIN, of an empty channel, is read's own. */
int
rdma_get_cm_event (struct rdma_event_channel *channel,
                   struct rdma_cm_event **out)
{
  uint64_t one;

  if (read (channel->fd, &one, sizeof one) != sizeof one)
    return -1;
  fake.latest = &fake.events[fake.taken++];
  *out = fake.latest;
  return 0;
}

int
rdma_ack_cm_event (struct rdma_cm_event *event)
{
  assert_ptr_equal (event, fake.latest);
  fake.acked++;
  return 0;
}

/* Read the refusal as a client does. */
int
rdma_reject (struct rdma_cm_id *id, const void *data, uint8_t length)
{
  struct fp_cm_event e = { .type = RDMA_CM_EVENT_REJECTED };

  assert_ptr_equal (id, fake.latest->id);
  assert_true (length <= sizeof e.private_data);
  e.private_length = length;
  memcpy (e.private_data, data, length);
  assert_int_equal (fp_cm_errno (&e), -EPROTO); /* FP_CM_REJECT_PROTO */
  fake.rejected++;
  return 0;
}

/* Destroy an id.  The library's own waits until each event of it is acked. */
int
rdma_destroy_id (struct rdma_cm_id *id)
{
  assert_int_equal (fake.acked, fake.taken);
  if (id == &fake.own) {
    fake.listens = false;
    return 0;
  }
  assert_ptr_equal (id, fake.latest->id);
  fake.destroyed++;
  return 0;
}

/* ---- the listener ---- */

static void
told (void *ctx, struct fp_verbs_listener *l, bool does)
{
  assert_ptr_equal (ctx, &fake);
  assert_ptr_equal (l, listener);
  assert_false (does);
  fake.told++;
}

static int
setup (void **state)
{
  const struct fp_verbs_handler handler = { .listens = told, .ctx = &fake };
  const struct fp_addr addr = { .port = 7471, .host = "127.0.0.1" };

  (void) state;
  memset (&fake, 0, sizeof fake);
  assert_int_equal (fp_verbs_listen (&listener, &addr, &handler), 0);
  assert_true (fake.listens);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_verbs_listener_free (listener);
  return 0;
}

/* Let an event wait in the channel. */
static struct rdma_cm_event *
add (enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
  const uint64_t one = 1;
  struct rdma_cm_event *e;

  assert_true (fake.added < FLOOD);
  e = &fake.events[fake.added++];
  e->event = type;
  e->id = id;
  assert_int_equal (write (fake.channel.fd, &one, sizeof one), sizeof one);
  return e;
}

/* Add a request that is not one of ours.  The CM pads its data to 56 bytes. */
static void
add_request (void)
{
  static const char garbage[56] = "GET / HTTP/1.1";
  struct rdma_cm_event *e;

  e = add (RDMA_CM_EVENT_CONNECT_REQUEST, &fake.ids[fake.added]);
  e->listen_id = &fake.own;
  e->param.conn.private_data = garbage;
  e->param.conn.private_data_len = sizeof garbage;
}

static bool
readable (void)
{
  const int fd = fp_verbs_listener_fd (listener);
  struct pollfd p = { .fd = fd, .events = POLLIN };

  return poll (&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

/* Check that exactly `requests` events were handled, all of them requests. */
static void
assert_handled (unsigned requests)
{
  assert_int_equal (fake.taken, requests);
  assert_int_equal (fake.acked, requests);
  assert_int_equal (fake.rejected, requests);
  assert_int_equal (fake.destroyed, requests);
}

/* ---- tests ---- */

/* One call handles TURN requests, and none is forgotten. */
static void
test_flood (void **state)
{
  (void) state;
  assert_false (readable ());
  for (unsigned i = 0; i < FLOOD; i++)
    add_request ();
  for (unsigned n = 1; n <= CALLS; n++) {
    assert_true (readable ());
    fp_verbs_listener_dispatch (listener);
    assert_handled (n < CALLS ? n * TURN : FLOOD);
  }
  assert_false (readable ());
  assert_true (fake.listens);
  assert_int_equal (fake.told, 0);
}

/* The handler hears of a lost device once, in its turn.  The second call finds
 * no device either, whether the timer has run by then or not.
 */
static void
test_device_removed (void **state)
{
  (void) state;
  add_request ();
  add_request ();
  add (RDMA_CM_EVENT_DEVICE_REMOVAL, &fake.own);
  fake.device_gone = true;
  for (unsigned n = 0; n < 2; n++) {
    fp_verbs_listener_dispatch (listener);
    assert_int_equal (fake.taken, 3);
    assert_int_equal (fake.acked, 3);
    assert_int_equal (fake.rejected, 2);
    assert_int_equal (fake.destroyed, 2);
    assert_false (fake.listens);
    assert_int_equal (fake.told, 1);
  }
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_flood),
    TEST (test_device_removed),
  };

  return RUN_TESTS (tests);
}
