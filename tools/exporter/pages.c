/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "tools/exporter/pages.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/prom.h"
#include "tools/common/deadline.h"
#include "tools/common/plugin_status.h"

#define PAGE_MAX                                                              \
  ((size_t) 4 << 20) /* bytes; a page with 64 servers has 0.2 MB */
#define READ_BYTES ((size_t) 64 << 10)

static void
shut (struct page *p)
{
  if (p->fd >= 0)
    close (p->fd);
  p->fd = -1;
}

static void
fail (struct page *p, int r, const char *why)
{
  fp_fail (&p->error, r, "%s: %s", p->path, why);
  shut (p);
  free (p->text);
  p->text = NULL;
}

/* Check and cut the end of the page.  The process has closed the connection.
 */
static void
finish (struct page *p)
{
  size_t mark = sizeof FP_PROM_END - 1;

  shut (p);
  if (p->used >= mark &&
      memcmp (p->text + p->used - mark, FP_PROM_END, mark) == 0)
    p->text[p->used - mark] = '\0';
  else if (p->used > 5 && memcmp (p->text, "{\"ok\"", 5) == 0)
    fail (p, -EOPNOTSUPP,
          "the process is of an earlier release, without metrics: detach the "
          "device and attach it again");
  else
    fail (p, -EPROTO, "the answer is not a complete page of metrics");
}

static void
read_more (struct page *p)
{
  char *text = realloc (p->text, p->used + READ_BYTES + 1);
  ssize_t n;

  if (text == NULL) {
    fail (p, -ENOMEM, strerror (ENOMEM));
    return;
  }
  p->text = text;
  if (p->used > PAGE_MAX) {
    fail (p, -EMSGSIZE, "the page is too large");
    return;
  }
  n = read (p->fd, text + p->used, READ_BYTES);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n < 0 && errno != ECONNRESET) {
    fail (p, -errno, strerror (errno));
    return;
  }
  p->used += n > 0 ? (size_t) n : 0;
  text[p->used] = '\0';
  if (n <= 0)
    finish (p);
}

/* Wait until a page can be read on.  Return false if none is left to read, or
 * the time is over.
 */
static bool
wait_for_some (struct page *pages, unsigned nr, struct pollfd *fds,
               const struct deadline *d, int ms)
{
  unsigned asked = 0;
  int n;

  for (unsigned i = 0; i < nr; i++) {
    fds[i] = (struct pollfd) { .fd = pages[i].fd, .events = POLLIN };
    asked += pages[i].fd >= 0;
  }
  n = asked > 0 ? poll (fds, nr, deadline_left (d, ms)) : 0;
  return n > 0 || (n < 0 && errno == EINTR);
}

void
pages_ask (struct page *pages, unsigned nr, int ms)
{
  struct deadline d = deadline_in (ms, NULL);
  struct pollfd *fds = calloc (nr > 0 ? nr : 1, sizeof *fds);

  for (unsigned i = 0; i < nr; i++) {
    struct page *p = &pages[i];

    p->fd = -1;
    if (p->path == NULL)
      continue;
    if (fds == NULL)
      fail (p, -ENOMEM, strerror (ENOMEM));
    else
      (void) plugin_ask (&p->fd, p->path, "metrics\n", &p->error);
  }
  while (fds != NULL && wait_for_some (pages, nr, fds, &d, ms))
    for (unsigned i = 0; i < nr; i++)
      if (pages[i].fd >= 0 && fds[i].revents != 0)
        read_more (&pages[i]);
  for (unsigned i = 0; i < nr; i++)
    if (pages[i].fd >= 0)
      fail (&pages[i], -ETIMEDOUT, "no answer in time: the process hangs");
  free (fds);
}

void
pages_free (struct page *pages, unsigned nr)
{
  for (unsigned i = 0; i < nr; i++)
    free (pages[i].text);
}
