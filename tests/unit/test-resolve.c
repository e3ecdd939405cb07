/* SPDX-License-Identifier: BSD-3-Clause */
/* test-resolve.c - look-ups of host names with a silent name server. */

#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "transport/control/resolve.h"
#include "base/thread.h"
#include "base/tsan.h"
#include "peer/peer_int.h"
#include "transport/control/ctl_channel.h"
#include "volume/volume.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static unsigned asked, inside;
static bool silent, broken;

/* Replace the C library's function. */
int
getaddrinfo (const char *node, const char *service,
             const struct addrinfo *hints, struct addrinfo **res)
{
  int (*real) (const char *, const char *, const struct addrinfo *,
               struct addrinfo **);
  void *symbol = dlsym (RTLD_NEXT, "getaddrinfo");

  memcpy (&real, &symbol, sizeof real);
  if (strcmp (node, "host.example") != 0)
    return real (node, service, hints, res);
  {
    FP_LOCK_SCOPE (&lock);
    asked++;
    inside++;
    while (silent)
      pthread_cond_wait (&cond, &lock);
    inside--;
    if (broken)
      return EAI_AGAIN;
  }
  return real ("127.0.0.1", service, hints, res);
}

static void
set_silent (bool on)
{
  FP_LOCK_SCOPE (&lock);
  silent = on;
  asked = 0;
  pthread_cond_broadcast (&cond);
}

static void
set_broken (bool on)
{
  FP_LOCK_SCOPE (&lock);
  broken = on;
}

static unsigned
count (const unsigned *what)
{
  FP_LOCK_SCOPE (&lock);
  return *what;
}

/* Return the real time plus later_s, which may be negative.  Timed waits of
 * pthreads use the kernel's time.
 */
static _Atomic int later_s;

int
clock_gettime (clockid_t clock, struct timespec *ts)
{
  int r = (int) syscall (SYS_clock_gettime, clock, ts);

  ts->tv_sec += (time_t) atomic_load (&later_s);
  return r;
}

/* Let abandoned look-ups end.  Their last steps in the library cannot be seen
 * from here.  So each test uses ports of its own, or it could get an older
 * answer.
 */
static int
teardown (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (60000);

  (void) state;
  set_silent (false);
  set_broken (false);
  atomic_store (&later_s, 0);
  while (count (&inside) > 0 && !fp_deadline_passed (deadline))
    poll (NULL, 0, 1);
  return count (&inside) > 0;
}

static int
resolve (const char *where, unsigned ms, const char **why)
{
  struct fp_sockaddrs list;
  struct fp_addr a;
  int r;

  assert_int_equal (fp_addr_parse (&a, where, NULL), 0);
  r = fp_addr_resolve_by (&a, &list, fp_deadline_in_ms (ms), why);
  if (r == 0)
    assert_true (list.nr > 0);
  return r;
}

static void
test_answers (void **state)
{
  const char *why = NULL;

  (void) state;
  assert_int_equal (resolve ("host.example:1", 60000, &why), 0);
  assert_int_equal (count (&asked), 1);
  assert_int_equal (resolve ("a..b:1", 60000, &why), -ENOENT);
  assert_non_null (why);
}

/* A control connection fails by its deadline if the name is not found. */
static void
test_connect (void **state)
{
  uint64_t start = fp_now_ns ();
  struct fp_ctl *ctl;
  struct fp_addr a;

  (void) state;
  set_silent (true);
  assert_int_equal (fp_addr_parse (&a, "host.example:11", NULL), 0);
  assert_int_equal (fp_ctl_open (&ctl, &a, fp_deadline_in_ms (100)),
                    -ETIMEDOUT);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 100, 60000);
  assert_non_null (strstr (fp_ctl_why (ctl), "name"));
  fp_ctl_free (ctl);
  while (count (&asked) < 1)
    poll (NULL, 0, 1);
}

/* Each name has one thread, however often it is tried.  A number has none. */
static void
test_silent (void **state)
{
  const char *why = NULL;

  (void) state;
  set_silent (true);
  for (unsigned i = 0; i < 10; i++)
    assert_int_equal (resolve ("host.example:21", 10, &why), -ETIMEDOUT);
  assert_int_equal (resolve ("host.example:22", 10, &why), -ETIMEDOUT);
  assert_int_equal (resolve ("127.0.0.1:1", 0, &why), 0);
  assert_int_equal (resolve ("[::1]:1", 0, &why), 0);
  while (count (&inside) < 2)
    poll (NULL, 0, 1);
  assert_int_equal (count (&asked), 2);
  /* An abandoned look-up that has ended is not waited for again. */
  assert_int_equal (teardown (state), 0);
  assert_int_equal (resolve ("host.example:21", 60000, &why), 0);
}

static void
speak_later (void *arg)
{
  (void) arg;
  poll (NULL, 0, 50);
  set_silent (false);
}

/* A caller that waits longer gets the result of an abandoned look-up. */
static void
test_joined (void **state)
{
  struct fp_thread thread;
  const char *why = NULL;

  (void) state;
  set_silent (true);
  assert_int_equal (resolve ("host.example:31", 5, &why), -ETIMEDOUT);
  assert_int_equal (fp_thread_create (&thread, "later", speak_later, NULL), 0);
  assert_int_equal (resolve ("host.example:31", 60000, &why), 0);
  assert_int_equal (fp_thread_join (&thread), 0);
}

/* A refused connection causes a look-up at most every 30 seconds. */
static void
test_known (void **state)
{
  struct fp_sockaddrs list;
  struct fp_ctl *ctl;
  struct fp_addr a;

  (void) state;
  set_silent (false);
  assert_int_equal (fp_addr_parse (&a, "127.0.0.1:2", NULL), 0);
  assert_true (fp_addr_known (&a, &list));
  assert_int_equal (list.nr, 1);
  assert_false (fp_addr_doubt (&a));

  assert_int_equal (resolve ("host.example:1", 60000, NULL), 0);
  assert_int_equal (fp_addr_parse (&a, "host.example:1", NULL), 0);
  set_silent (false);
  for (unsigned i = 0; i < 3; i++) {
    atomic_store (&later_s, (int) i * 31);
    assert_true (fp_ctl_open (&ctl, &a, fp_deadline_in_ms (60000)) < 0);
    fp_ctl_free (ctl);
    /* At the second attempt the answer is not 30 seconds old yet. */
    assert_int_equal (count (&asked), i == 2);
  }
  atomic_store (&later_s, 63);
  assert_true (fp_addr_known (&a, &list));
  assert_false (fp_addr_doubt (&a));
  atomic_store (&later_s, 99);
  assert_true (fp_addr_doubt (&a));
  assert_false (fp_addr_known (&a, &list));
  atomic_store (&later_s, 0);
}

/* Reserve a port for this test, without a listener yet. */
static int
make_port (struct fp_addr *a)
{
  struct sockaddr_in in = { .sin_family = AF_INET,
                            .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t len = sizeof in;
  int fd = socket (AF_INET, SOCK_STREAM, 0);
  struct fp_sockaddrs list;
  char name[32];

  assert_int_not_equal (fd, -1);
  assert_int_equal (bind (fd, (struct sockaddr *) &in, len), 0);
  assert_int_equal (getsockname (fd, (struct sockaddr *) &in, &len), 0);
  snprintf (name, sizeof name, "host.example:%u", ntohs (in.sin_port));
  assert_int_equal (fp_addr_parse (a, name, NULL), 0);
  /* If later_s is negative, the deadline has passed for pthreads, which do not
   * wait.  So try until the look-up has ended.
   */
  for (unsigned i = 0; i < 5000 && !fp_addr_known (a, &list); i++) {
    (void) resolve (name, 60000, NULL);
    poll (NULL, 0, 1);
  }
  assert_true (fp_addr_known (a, &list));
  return fd;
}

static int
connect_to (const struct fp_addr *a, unsigned ms)
{
  struct fp_ctl *ctl;
  int r = fp_ctl_open (&ctl, a, fp_deadline_in_ms (ms));

  fp_ctl_free (ctl);
  return r;
}

/* A server restarts at the same address while the name server is down or
 * silent.  The client finds it, and does not ask the name server each time.
 */
static void
test_back (void **state)
{
  (void) state;
  if (fp_now_ns () < 100 * FP_NS_PER_S)
    skip (); /* the clock would be negative */
  for (unsigned mute = 0; mute < 2; mute++) {
    /* With a silent name server, fp_ctl_open waits for it half of the time
     * until the deadline.  A short deadline keeps the test short.
     */
    const unsigned ms = mute ? 8000 : 60000;
    struct fp_addr a;
    int fd;

    atomic_store (&later_s, -62);
    fd = make_port (&a);
    atomic_store (&later_s, -31);
    assert_int_equal (connect_to (&a, 60000), -ECONNREFUSED);
    set_broken (true);
    set_silent (mute);
    assert_int_equal (connect_to (&a, ms), -ECONNREFUSED);
    assert_int_equal (connect_to (&a, ms), -ECONNREFUSED);
    assert_int_equal (listen (fd, 8), 0);
    assert_int_equal (connect_to (&a, ms), 0);
    while (count (&asked) < 1)
      poll (NULL, 0, 1);
    assert_int_equal (count (&asked), 1);
    /* The known address is old: it may have another owner by now. */
    assert_true (fp_addr_doubt (&a));

    atomic_store (&later_s, 0);
    assert_true (fp_addr_doubt (&a));
    /* enough for a look-up, too */
    assert_int_equal (connect_to (&a, 2000), 0);
    close (fd);
    assert_int_equal (teardown (state), 0);
  }
}

/* A listener that is no server puts the address in doubt, too. */
static void
test_stranger (void **state)
{
  static struct fp_volume_params p;
  static struct fp_lease lease;
  static struct fp_peers peers = { .p = &p, .lease = &lease };
  struct fp_sockaddrs list;
  struct fp_peer *peer;
  struct fp_error error;
  int fd;

  (void) state;
  fp_volume_params_init (&p);
  fd = make_port (&p.servers[0]);
  assert_int_equal (listen (fd, 8), 0);
  p.nr_servers = 1;
  p.transports = FP_TRANSPORT_TCP;
  p.timeout_ms = 1;
  assert_int_equal (fp_peer_new (&peer, &peers, 0), 0);

  atomic_store (&later_s, 31);
  assert_int_equal (peer_come_up (peer, &error), -ETIMEDOUT);
  assert_non_null (strstr (error.text, "HELLO"));
  assert_false (fp_addr_known (&p.servers[0], &list));
  peer_move (peer, FP_SERVER_DOWN);
  set_silent (false);
  assert_int_equal (peer_come_up (peer, &error), -ETIMEDOUT);
  assert_int_equal (count (&asked), 1);
  assert_true (fp_addr_known (&p.servers[0], &list));

  peer_move (peer, FP_SERVER_DOWN);
  fp_peer_free (peer);
  close (fd);
  atomic_store (&later_s, 0);
}

/* Wait for the child of a fork, which must succeed. */
static void
expect_child (pid_t pid)
{
  int status;

  assert_int_not_equal (pid, -1);
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_int_equal (status, 0);
}

/* A fork during a look-up: the child has no look-up thread. */
static void
test_fork (void **state)
{
  pid_t pid;

  (void) state;
#ifdef FP_UNDER_TSAN
  skip (); /* under the sanitizer, a forked child cannot start threads */
#endif
  set_silent (true);
  assert_int_equal (resolve ("host.example:41", 20, NULL), -ETIMEDOUT);
  while (count (&inside) < 1)
    poll (NULL, 0, 1);
  pid = fork ();
  if (pid == 0) {
    alarm (120); /* this test is about a hang */
    set_silent (false);
    _exit (resolve ("host.example:41", 60000, NULL) == 0 ? 0 : 1);
  }
  expect_child (pid);
}

static _Atomic bool asking;

static void
ask_often (void *arg)
{
  struct fp_sockaddrs list;

  while (atomic_load (&asking))
    (void) fp_addr_known (arg, &list);
}

/* A fork while another thread holds the lock. */
static void
test_fork_locked (void **state)
{
  struct fp_thread thread;
  struct fp_addr a;

  (void) state;
  assert_int_equal (resolve ("host.example:42", 60000, NULL), 0);
  assert_int_equal (fp_addr_parse (&a, "host.example:42", NULL), 0);
  atomic_store (&asking, true);
  assert_int_equal (fp_thread_create (&thread, "ask", ask_often, &a), 0);
  for (unsigned i = 0; i < 20; i++) {
    pid_t pid = fork ();

    if (pid == 0) {
      struct fp_sockaddrs list;

      alarm (120); /* this test is about a hang */
      _exit (fp_addr_known (&a, &list) ? 0 : 1);
    }
    expect_child (pid);
  }
  atomic_store (&asking, false);
  assert_int_equal (fp_thread_join (&thread), 0);
}

/* With more names than there is room for, the oldest goes. */
static void
test_many (void **state)
{
  struct fp_sockaddrs list;
  struct fp_addr a;
  char name[32];

  (void) state;
  for (unsigned i = 0; i <= FP_KNOWN_NAMES; i++) {
    snprintf (name, sizeof name, "host.example:%u", 100 + i);
    assert_int_equal (resolve (name, 60000, NULL), 0);
  }
  assert_int_equal (fp_addr_parse (&a, "host.example:101", NULL), 0);
  assert_true (fp_addr_known (&a, &list));
  assert_int_equal (fp_addr_parse (&a, "host.example:164", NULL), 0);
  assert_true (fp_addr_known (&a, &list));
  assert_int_equal (fp_addr_parse (&a, "host.example:1", NULL), 0);
  assert_false (fp_addr_known (&a, &list));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, NULL, teardown)
    TEST (test_answers),     TEST (test_connect),  TEST (test_silent),
    TEST (test_joined),      TEST (test_many),     TEST (test_known),
    TEST (test_back),        TEST (test_stranger), TEST (test_fork),
    TEST (test_fork_locked),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
