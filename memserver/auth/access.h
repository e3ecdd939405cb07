/* SPDX-License-Identifier: BSD-3-Clause */
/* access.h - who may do what here: the file of --access.  It has a section for
 * each identity; farpage-memserver(1), 'WHO MAY DO WHAT', says what stands
 * there.  Who is in none of them may do nothing.  Without a file everybody may
 * do everything.
 *
 * An identity is what TLS or the kernel vouches for, never what a client says
 * of itself.
 *
 * Units:    bytes.
 * Errors:   0 or a negative errno value; why says more, for people.
 * Threads:  no shared state; access_read may wait for NSS (user:NAME), so
 *           it is not for the loop.
 * Memory:   access_read allocates, ACCESS_MAX identities at most; nothing else
 *           does.
 */

#ifndef MEMSERVER_ACCESS_H
#define MEMSERVER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"

#define ACCESS_MAX 1024u
#define ACCESS_PATTERNS_MAX 64u /* of one identity */
#define ACCESS_NAME_MAX 48      /* of TLS: libinih cuts longer sections off */
#define ACCESS_WHY_MAX 512

/* ---- who ---- */

enum who_kind {
  WHO_NOBODY,    /* not known; equal to nobody */
  WHO_ANONYMOUS, /* over TCP, in clear, or with TLS and no name */
  WHO_TLS,       /* the user of a key, or the name in a certificate */
  WHO_USER       /* of a Unix socket */
};

struct who {
  enum who_kind kind;
  uint32_t uid;
  char name[FP_NAME_MAX + 1];
};

bool who_eq (const struct who *a, const struct who *b);

/* For people: "tls:NAME", "uid:N" or "anonymous"; no two are written alike. */
#define WHO_STR_MAX (FP_NAME_MAX + 8)
void who_format (const struct who *w, char out[WHO_STR_MAX]);

/* ---- what ---- */

struct access_pattern {
  bool read_only;
  char text[FP_NAME_MAX + 1]; /* fnmatch(3) */
};

struct access_rights {
  struct who who;
  uint64_t quota; /* UINT64_MAX: as much as there is */
  bool read_only; /* all that it may have */
  bool may_delete, may_take_over, is_admin;
  unsigned nr_patterns;
  struct access_pattern *patterns;
  unsigned seen; /* by access_read: which settings there were */
};

struct access;

/* -EINVAL: there is something wrong in it; -ENOENT, ...: it cannot be read. */
int access_read (struct access **out, const char *path,
                 char why[ACCESS_WHY_MAX]);
void access_free (struct access *a);
unsigned access_count (const struct access *a);
const struct access_rights *access_at (const struct access *a, unsigned i);

/* NULL: it is not in the file.  a is NULL: there is no file. */
const struct access_rights *access_find (const struct access *a,
                                         const struct who *who);

enum access_level {
  ACCESS_NONE, /* as if there were no such volume */
  ACCESS_READ,
  ACCESS_WRITE
};

/* What it may do with a volume of that name, or without one (""), whose owner
 * this is.  One without a name is its owner's alone, or of who knows its UUID
 * if nobody knows the owner.
 */
enum access_level access_to (const struct access_rights *r, const char *name,
                             const struct who *owner);

/* May it know that there is such a volume? */
bool access_sees (const struct access_rights *r, const char *name,
                  const struct who *owner);

/* Is it told of it, without asking for this one?  Who is no admin is not,
 * where a volume has no name and nobody knows whose it is.
 */
bool access_lists (const struct access_rights *r, const char *name,
                   const struct who *owner);

/* Who may do nothing. */
extern const struct access_rights access_nobody;

#endif /* MEMSERVER_ACCESS_H */
