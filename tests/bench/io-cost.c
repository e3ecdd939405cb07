/* SPDX-License-Identifier: BSD-3-Clause */
/* io-cost.c - count allocations and system calls of the thread that does I/O
 * on a volume.  Neither is allowed.  Allocations are counted on any transport,
 * system calls on shm.
 *
 *   io-cost ADDR[,ADDR] shm|tcp|rdma [waste|crc32c|xts|gcm]
 *
 * With two servers there are two copies.  crc32c, xts and gcm measure a sealed
 * volume.  The exit code is 0 if there were none, 1 if there were some, and 77
 * if they cannot be counted.  With 'waste' it makes one of each, to show that
 * it sees them.
 *
 * Allocations are counted by functions that replace the C library's.  System
 * calls are counted by a seccomp filter on one thread, which turns each call
 * into a signal.  A filter cannot be removed, so the measurement has its own
 * thread.
 */

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/error.h"
#include "volume/volume.h"

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#endif

#define SIZE (64u << 20)
#define PASSES 20
#define DEPTH 8
#define MAX_IO (1u << 20)

static const uint32_t sizes[] = { 1, 7, 511, 4096, 4097, 65536, MAX_IO };
#define NR_SIZES (sizeof sizes / sizeof sizes[0])

static __thread bool armed;
static unsigned long allocations;
static volatile sig_atomic_t syscalls, last_syscall;

#ifndef SANITIZED

void *__libc_malloc (size_t size);
void *__libc_calloc (size_t n, size_t size);
void *__libc_realloc (void *p, size_t size);
void *__libc_memalign (size_t alignment, size_t size);
void __libc_free (void *p);

static void
count_allocation (void)
{
  if (armed)
    allocations++;
}

void *
malloc (size_t size)
{
  count_allocation ();
  return __libc_malloc (size);
}

void *
calloc (size_t n, size_t size)
{
  count_allocation ();
  return __libc_calloc (n, size);
}

void *
realloc (void *p, size_t size)
{
  count_allocation ();
  return __libc_realloc (p, size);
}

void *
memalign (size_t alignment, size_t size)
{
  count_allocation ();
  return __libc_memalign (alignment, size);
}

void *
aligned_alloc (size_t alignment, size_t size)
{
  return memalign (alignment, size);
}

int
posix_memalign (void **out, size_t alignment, size_t size)
{
  void *p = memalign (alignment, size);

  if (p == NULL)
    return ENOMEM;
  *out = p;
  return 0;
}

void
free (void *p)
{
  if (p != NULL)
    count_allocation ();
  __libc_free (p);
}

void *
mmap (void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
  count_allocation ();
  return (void *) syscall (SYS_mmap, addr, length, prot, flags, fd, offset);
}

#endif

static void
on_sigsys (int sig, siginfo_t *info, void *context)
{
  (void) sig;
  (void) context;
  syscalls++;
  last_syscall = info->si_syscall;
}

/* Count each later system call of this thread, and make it fail. */
static int
trap_syscalls (void)
{
  struct sock_filter filter[] = {
    BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
    /* The calls that return from the signal and end the thread. */
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {
    .len = sizeof filter / sizeof filter[0],
    .filter = filter,
  };
  struct sigaction sa = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO };
  sigset_t set;

  if (sigaction (SIGSYS, &sa, NULL) == -1 || sigemptyset (&set) == -1 ||
      sigaddset (&set, SIGSYS) == -1)
    return -errno;
  if (pthread_sigmask (SIG_UNBLOCK, &set, NULL) != 0 ||
      prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
      prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1)
    return -errno;
  return 0;
}

/* Return true if this machine reads the clock without a system call. */
static bool
clock_is_cheap (void)
{
  static const char *const cheap[] = { "tsc", "kvm-clock",
                                       "hyperv_clocksource_tsc_page",
                                       "arch_sys_counter" };
  char name[64] = "";
  FILE *fp = fopen (
      "/sys/devices/system/clocksource/clocksource0/current_clocksource",
      "re");

  if (fp == NULL)
    return false;
  if (fgets (name, sizeof name, fp) == NULL)
    name[0] = '\0';
  fclose (fp);
  name[strcspn (name, "\n")] = '\0';
  for (size_t i = 0; i < sizeof cheap / sizeof cheap[0]; i++) {
    if (strcmp (name, cheap[i]) == 0)
      return true;
  }
  return false;
}

struct work {
  struct fp_lane *lane;
  unsigned char *buf;
  bool trap, waste, sealed;
  int err;
  struct fp_io ios[DEPTH];
};

static int
sync_pass (struct work *w, uint32_t size, uint64_t at)
{
  int r = fp_lane_write (w->lane, w->buf, size, at);

  if (r == 0)
    r = fp_lane_read (w->lane, w->buf, size, at);
  return r;
}

static int
async_pass (struct work *w, uint32_t size, uint64_t at)
{
  unsigned left = 0;
  int r = 0;

  for (; r == 0 && left < DEPTH; left += r == 0) {
    w->ios[left] = (struct fp_io) {
      .kind = left % 2 ? FP_IO_READ : FP_IO_WRITE,
      .length = size,
      .offset = at,
      .buf = w->buf,
    };
    r = fp_lane_submit (w->lane, &w->ios[left]);
  }
  while (left > 0) {
    for (struct fp_io *io = fp_lane_poll (w->lane, true); io; io = io->next) {
      left--;
      if (io->status < 0)
        r = io->status;
    }
  }
  return r;
}

/* Use odd offsets, and the border between two extents. */
static int
passes (struct work *w, unsigned nr)
{
  int r = 0;

  for (unsigned i = 0; r == 0 && i < nr * NR_SIZES; i++) {
    uint32_t size = sizes[i % NR_SIZES];
    uint64_t at = (i * UINT64_C (7919) * 4099) % (SIZE - MAX_IO);

    r = sync_pass (w, size, at);
    if (r == 0)
      r = sync_pass (w, size, SIZE / 2 - size / 2);
    if (r == 0 && !w->sealed)
      r = async_pass (w, size, at);
  }
  return r;
}

static void *
measure (void *arg)
{
  struct work *w = arg;
  void *volatile p; /* or the compiler removes the calls */

  /* Let malloc set up this thread's heap now.  Later that would be a system
   * call, and be counted.
   */
  p = malloc (1);
  free (p);
  /* The first write to an extent waits for its memory.  That takes system
   * calls, but no allocation.
   */
  armed = true;
  w->err = passes (w, 1);
  for (uint64_t at = 0; w->err == 0 && at < SIZE; at += MAX_IO)
    w->err = fp_lane_write (w->lane, w->buf, MAX_IO, at);
  if (w->err == 0 && w->trap)
    w->err = trap_syscalls ();
  if (w->err == 0)
    w->err = passes (w, PASSES);
  if (w->waste) {
    p = malloc (1);
    free (p);
    if (w->trap)
      (void) getppid ();
  }
  armed = false;
  if (w->trap)
    syscall (SYS_exit, 0);
  return NULL;
}

static int
run (struct fp_volume_params *p, struct work *w)
{
  struct fp_error error = { .text = "" };
  struct fp_volume *v;
  pthread_t thread;
  int r = fp_volume_probe (p, &error);

  if (r == 0)
    r = fp_volume_start (&v, p, &error);
  if (r < 0) {
    fprintf (stderr, "io-cost: %s\n", error.text);
    return r;
  }
  w->lane = fp_volume_lane_get (v);
  r = -pthread_create (&thread, NULL, measure, w);
  if (r == 0)
    r = -pthread_join (thread, NULL);
  fp_volume_lane_put (w->lane);
  fp_volume_stop (v, true);
  if (r == 0)
    r = w->err;
  if (r < 0)
    fprintf (stderr, "io-cost: %s\n", strerror (-r));
  return r;
}

int
main (int argc, char *argv[])
{
  struct fp_volume_params p;
  const char *how = argc > 3 ? argv[3] : "";
  struct work w = { .waste = strcmp (how, "waste") == 0 };
  const char *why;
  char *second;

#ifdef SANITIZED
  printf ("io-cost: a sanitizer allocates memory by itself\n");
  return 77;
#endif
  fp_volume_params_init (&p);
  p.nr_servers = 1;
  p.size = SIZE;
  second = argc < 3 ? NULL : strchr (argv[1], ',');
  if (second != NULL) {
    *second++ = '\0';
    p.copies = p.nr_servers = 2;
  }
  if (argc < 3 || fp_addr_parse (&p.servers[0], argv[1], &why) < 0 ||
      (second != NULL && fp_addr_parse (&p.servers[1], second, &why) < 0)) {
    fprintf (stderr, "usage: io-cost ADDR[,ADDR] shm|tcp|rdma "
                     "[waste|crc32c|xts|gcm]\n");
    return 2;
  }
  p.integrity = strcmp (how, "gcm") == 0;
  if (p.integrity || strcmp (how, "xts") == 0)
    p.encrypt = FP_ENCRYPT_EPHEMERAL;
  if (strcmp (how, "crc32c") == 0)
    p.checksum = FP_CHECKSUM_CRC32C;
  w.sealed = how[0] != '\0' && !w.waste;
  p.transports = strcmp (argv[2], "shm") == 0   ? FP_TRANSPORT_SHM
                 : strcmp (argv[2], "tcp") == 0 ? FP_TRANSPORT_TCP
                                                : FP_TRANSPORT_RDMA;
  w.trap = p.transports == FP_TRANSPORT_SHM && clock_is_cheap ();
  if (p.transports == FP_TRANSPORT_SHM && !w.trap)
    printf ("io-cost: reading this machine's clock is a system call: "
            "not counting those\n");
  w.buf = malloc (MAX_IO);
  if (w.buf == NULL)
    return 1;
  memset (w.buf, 0x5a, MAX_IO);
  if (run (&p, &w) < 0)
    return 1;
  free (w.buf);
  printf ("%s: %lu allocations, ", argv[2], allocations);
  if (w.trap)
    printf ("%d system calls (the last one: %d)\n", (int) syscalls,
            (int) last_syscall);
  else
    printf ("system calls not counted\n");
  return allocations > 0 || syscalls > 0;
}
