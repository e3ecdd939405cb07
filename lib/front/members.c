/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "front/members.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/error.h"

#define LINE_MAX_BYTES (FP_ADDR_MAX + FP_NAME_MAX + 32)

static int
failed (const char *path, const char *what, int err, struct fp_error *error)
{
  return fp_fail (error, -err, "members=%s: %s: %s", path, what,
                  strerror (err));
}

int
fp_members_read (struct fp_params *p, struct fp_error *error)
{
  const char *path = p->members;
  char line[LINE_MAX_BYTES];
  FILE *fp;
  int r = 0;

  if (!p->volume.resume || path[0] == '\0')
    return 0;
  fp = fopen (path, "re");
  if (fp == NULL)
    return errno == ENOENT ? 0 : failed (path, "open", errno, error);
  p->volume.nr_servers = 0;
  while (r == 0 && fgets (line, sizeof line, fp) != NULL) {
    line[strcspn (line, "\n")] = '\0';
    r = fp_params_set (p, "server", line, error);
  }
  if (r == 0 && ferror (fp))
    r = failed (path, "read", EIO, error);
  fclose (fp);
  return r;
}

static int
write_lines (FILE *fp, const struct fp_server_names *servers)
{
  char addr[FP_ADDR_MAX + 1];

  for (unsigned i = 0; i < servers->nr; i++) {
    const struct fp_server_name *s = &servers->names[i];

    fp_addr_format (&s->addr, addr);
    if (fprintf (fp, "%s%s%s\n", addr, s->domain[0] != '\0' ? ",domain=" : "",
                 s->domain) < 0)
      return -EIO;
  }
  return fflush (fp) == EOF ? -errno : 0;
}

int
fp_members_write (void *opaque, const struct fp_server_names *servers,
                  struct fp_error *error)
{
  const char *path = opaque;
  char temporary[FP_MEMBERS_PATH_MAX + 8];
  FILE *fp;
  int r;

  snprintf (temporary, sizeof temporary, "%s.new", path);
  fp = fopen (temporary, "we");
  if (fp == NULL)
    return failed (path, "open", errno, error);
  r = write_lines (fp, servers);
  if (fclose (fp) == EOF && r == 0)
    r = -errno;
  if (r == 0 && rename (temporary, path) == -1)
    r = -errno;
  if (r < 0)
    unlink (temporary);
  return r < 0 ? failed (path, "write", -r, error) : 0;
}
