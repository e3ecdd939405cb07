/* SPDX-License-Identifier: BSD-3-Clause */
/* store_fds.c - memfds that systemd keeps for its service.  We send each one
 * to systemd with its name, and systemd gives them to the next process of the
 * service.
 *
 * A message is in systemd's queue when the call returns.  It stays there if
 * this process is killed, and messages are handled in order.  systemd does not
 * say whether it has kept a memfd.  If FileDescriptorStoreMax= is too low some
 * are missing at the next start, and then the store is refused.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "memserver/pool/store_int.h"

/* All names go to a process in one variable of at most 128 KiB
 * (MAX_ARG_STRLEN).  With more than that no process could be started any more.
 */
#define NAMES_MAX (120u << 10)

/* Our names: others may be here, too, such as sockets of a .socket unit. */
static const char *const ours[] = { "state", "slab-", "volume-" };

static bool
is_ours (const char *name)
{
  if (strlen (name) >= STORE_NAME_MAX)
    return false;
  for (unsigned i = 0; i < sizeof ours / sizeof ours[0]; i++)
    if (strncmp (name, ours[i], strlen (ours[i])) == 0)
      return true;
  return false;
}

static void
free_names (char **names)
{
  for (char **n = names; n && *n; n++)
    free (*n);
  free (names);
}

static int
add (struct store *s, const char *name, int fd)
{
  struct store_file *f = calloc (1, sizeof *f);
  size_t length = strlen (name) + 1;

  if (!f)
    return -ENOMEM;
  snprintf (f->name, sizeof f->name, "%s", name);
  f->fd = fd;
  FP_LOCK_SCOPE (&s->mutex);
  if (s->names + length > NAMES_MAX) {
    free (f);
    return -ENOSPC;
  }
  s->names += length;
  f->next = s->files;
  s->files = f;
  return 0;
}

/* Return the link to the file of this name, or the last link.  Call with the
 * lock held.
 */
static struct store_file **
find (struct store *s, const char *name)
{
  struct store_file **f = &s->files;

  while (*f && strcmp ((*f)->name, name) != 0)
    f = &(*f)->next;
  return f;
}

int
store_fds_open (struct store *s, struct fp_error *error)
{
  char **names = NULL;
  int n, r = 0;

  s->page = (uint64_t) sysconf (_SC_PAGESIZE);
  if (!getenv ("NOTIFY_SOCKET"))
    return fp_fail (error, -EINVAL,
                    "backing: %s: NOTIFY_SOCKET is not set: use this only "
                    "in a service of systemd with FileDescriptorStoreMax= "
                    "and NotifyAccess=main",
                    s->where);
  n = sd_listen_fds_with_names (0, &names);
  if (n < 0)
    return fp_fail (error, n, "backing: %s: cannot get the kept files: %s",
                    s->where, strerror (-n));
  for (int i = 0; i < n && r == 0; i++) {
    int fd = SD_LISTEN_FDS_START + i;

    if (!is_ours (names[i]))
      continue;
    if (*find (s, names[i]))
      r = fp_fail (error, -EEXIST,
                   "backing: %s%s: systemd keeps two files of this name",
                   s->where, names[i]);
    else
      r = add (s, names[i], fd);
  }
  free_names (names);
  return r;
}

void
store_fds_close (struct store *s)
{
  while (s->files) {
    struct store_file *f = s->files;

    s->files = f->next;
    close (f->fd);
    free (f);
  }
}

uint64_t
store_fds_holds (const char *prefix)
{
  char **names = NULL;
  int n = sd_listen_fds_with_names (0, &names);
  uint64_t bytes = 0;
  struct stat st;

  for (int i = 0; i < n; i++)
    if (strncmp (names[i], prefix, strlen (prefix)) == 0 &&
        fstat (SD_LISTEN_FDS_START + i, &st) == 0)
      bytes += (uint64_t) st.st_blocks * 512;
  free_names (names);
  return bytes;
}

int
store_fds_get (struct store *s, const char *name)
{
  struct store_file *f;
  int fd;

  FP_LOCK_SCOPE (&s->mutex);
  f = *find (s, name);
  if (!f)
    return -ENOENT;
  fd = fcntl (f->fd, F_DUPFD_CLOEXEC, 0);
  return fd < 0 ? -errno : fd;
}

int
store_fds_make (struct store *s, const char *name)
{
  int fd = memfd_create (name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

  (void) s;
  return fd < 0 ? -errno : fd;
}

int
store_fds_keep (struct store *s, const char *name, int fd)
{
  char state[STORE_NAME_MAX + 32];
  int r, copy = fcntl (fd, F_DUPFD_CLOEXEC, 0);

  if (copy < 0)
    return -errno;
  r = add (s, name, copy);
  if (r < 0) {
    close (copy);
    return r;
  }
  snprintf (state, sizeof state, "FDSTORE=1\nFDNAME=%s", name);
  r = sd_pid_notify_with_fds (0, 0, state, &fd, 1);
  if (r > 0)
    return 0;
  (void) store_fds_remove (s, name);
  return r < 0 ? r : -ENOTCONN;
}

int
store_fds_remove (struct store *s, const char *name)
{
  char state[STORE_NAME_MAX + 32];
  struct store_file **at, *f;
  int r;

  {
    FP_LOCK_SCOPE (&s->mutex);
    at = find (s, name);
    f = *at;
    if (!f)
      return 0;
    *at = f->next;
    s->names -= strlen (f->name) + 1;
  }
  /* Format first: name may be the one in f. */
  snprintf (state, sizeof state, "FDSTOREREMOVE=1\nFDNAME=%s", name);
  close (f->fd);
  free (f);
  r = sd_notify (0, state);
  return r > 0 ? 0 : r < 0 ? r : -ENOTCONN;
}

int
store_fds_each (struct store *s, store_each_fn *each, void *ctx,
                struct fp_error *error)
{
  struct store_file *f = s->files, *next;
  int r = 0;

  /* No other thread runs yet.  each may remove the file that it is given. */
  for (; f && r == 0; f = next) {
    next = f->next;
    r = each (ctx, f->name, error);
  }
  return r;
}
