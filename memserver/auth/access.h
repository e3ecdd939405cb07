/* SPDX-License-Identifier: BSD-3-Clause */
/* access.h - the access file (--access): what each identity may do here.  It
 * has a section for each identity; farpage-access.conf(5) describes it.  An
 * identity without a section may do nothing.  Without a file every client may
 * do everything.
 *
 * TLS or the kernel vouches for an identity, never the client itself.
 *
 * Units:    bytes.
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  no shared state.  access_read may wait for NSS (user:NAME), so do
 *           not call it on the event loop.
 * Memory:   only access_read allocates, at most ACCESS_MAX identities.
 */

#ifndef MEMSERVER_ACCESS_H
#define MEMSERVER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/messages.h"

#define ACCESS_MAX 1024u
#define ACCESS_PATTERNS_MAX 64u /* per identity */
#define ACCESS_NAME_MAX 48      /* section names: libinih cuts off more */

/* ---- identities ---- */

enum who_kind {
  WHO_NOBODY,    /* unknown; not equal even to itself */
  WHO_ANONYMOUS, /* TCP without TLS, or TLS without a name */
  WHO_TLS,       /* user of a key, or name in a certificate */
  WHO_USER       /* user at the other end of a Unix socket */
};

struct who {
  enum who_kind kind;
  uint32_t uid;
  char name[FP_NAME_MAX + 1];
};

bool who_eq (const struct who *a, const struct who *b);

/* Format w for people: "tls:NAME", "uid:N" or "anonymous".  Different
 * identities have different texts.
 */
#define WHO_STR_MAX (FP_NAME_MAX + 8)
void who_format (const struct who *w, char out[WHO_STR_MAX]);

/* ---- rights ---- */

struct access_pattern {
  bool read_only;
  char text[FP_NAME_MAX + 1]; /* for fnmatch(3) */
};

struct access_rights {
  struct who who;
  uint64_t quota; /* UINT64_MAX: no limit */
  bool read_only; /* for all volumes that it may have */
  bool may_delete, may_take_over, is_admin;
  unsigned nr_patterns;
  struct access_pattern *patterns;
  unsigned seen; /* for access_read: which settings there were */
};

struct access;

/* Read the access file.  -EINVAL: something in it is wrong; -ENOENT, ...: it
 * cannot be read.
 */
int access_read (struct access **out, const char *path,
                 struct fp_error *error);
void access_free (struct access *a);
unsigned access_count (const struct access *a);
const struct access_rights *access_at (const struct access *a, unsigned i);

/* Return the rights of an identity, or NULL if the file has no section for it.
 * If a is NULL there is no file: return all rights.
 */
const struct access_rights *access_find (const struct access *a,
                                         const struct who *who);

enum access_level {
  ACCESS_NONE, /* as if there were no such volume */
  ACCESS_READ,
  ACCESS_WRITE
};

/* Return what an identity may do with a volume of this name and owner.  A
 * volume without a name ("") is for its owner alone.  If its owner is unknown,
 * it is for all who know its UUID.
 */
enum access_level access_to (const struct access_rights *r, const char *name,
                             const struct who *owner);

/* Return true if the identity may know that this volume exists. */
bool access_sees (const struct access_rights *r, const char *name,
                  const struct who *owner);

/* Return true if a list of volumes shows this one to the identity.  A volume
 * without name and known owner is shown to an admin only.
 */
bool access_lists (const struct access_rights *r, const char *name,
                   const struct who *owner);

/* Rights of an identity that may do nothing. */
extern const struct access_rights access_nobody;

#endif /* MEMSERVER_ACCESS_H */
