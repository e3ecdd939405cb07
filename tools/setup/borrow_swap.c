/* SPDX-License-Identifier: BSD-3-Clause */
/* borrow_swap.c - memory of servers as swap. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/sysfs.h"
#include "tools/setup/borrow.h"
#include "tools/setup/unit.h"

static int
compose (struct plan *p, const struct borrow_swap *b, struct fp_error *error)
{
  char size[FP_SIZE_STR_MAX];
  FILE *f;
  int r = plan_text (&f, p, error);

  if (r < 0)
    return r;
  fp_format_size_exact (p->choice.size, size);
  fprintf (f, "size = %s\ncopies = %u\n", size, p->choice.copies);
  fprintf (f, "volume =\nfront = auto\nswap = yes\npriority = %ld\n",
           b->priority);
  if (b->plan.single_copy)
    fputs ("single-copy = yes\n", f);
  if (b->discard)
    fputs ("discard = yes\n", f);
  return plan_text_end (f, p, error);
}

/* Start swapping.  On failure remove the volume file again. */
static int
start (const struct plan *p, struct fp_error *error)
{
  char attach[PLAN_UNIT_MAX], swap[PLAN_UNIT_MAX];
  struct fp_error second;
  int r;

  plan_unit (attach, "farpage", p->name);
  plan_unit (swap, "farpage-swap", p->name);
  r = unit_start (swap, !p->args->once, error);
  if (r == 0)
    return 0;
  unit_say_log (attach);
  unit_say_log (swap);
  (void) unit_stop (swap, &second);
  /* The device may be swapped to all the same: then its file stays. */
  return plan_detach (p->name, "swapoff", &second) < 0 ||
                 plan_remove (p->path, p->name, &second) < 0
             ? fp_fail (error, r, "%s did not start (see above); %s", swap,
                        second.text)
             : fp_fail (error, r, "%s did not start: see above", swap);
}

static int
do_it (struct plan *p, struct fp_error *error)
{
  struct swap_area area;
  int index, r = plan_save (p, error);

  if (r < 0)
    return r;
  printf ("wrote %s ('farpage swapoff %s' undoes this)\n"
          "starting farpage-swap@%s.service%s\n",
          p->path, p->name, p->name,
          p->args->once ? "" : ", now and at each boot");
  fflush (stdout);
  r = start (p, error);
  if (r == 0)
    r = state_find_link (p->name, &index, error);
  if (r < 0)
    return r;
  if (index < 0 || device_swap (index, &area, NULL) < 0 || !area.active)
    return fp_fail (error, -EIO,
                    "the service has started, but this machine does not swap "
                    "to %s: see 'journalctl -u farpage@%s -u farpage-swap@%s'",
                    p->name, p->name, p->name);
  printf ("swapping to %s, priority %ld\n", device_path (index).s,
          area.priority);
  return 0;
}

int
borrow_swap (const struct borrow_swap *b)
{
  static struct plan p;
  struct fp_error error;
  uint64_t memory;
  int r = plan_begin (&p, &b->plan, &error);

  if (r == 0 && meminfo ("MemTotal", &memory) < 0)
    r = fp_fail (&error, -EIO,
                 "/proc/meminfo: cannot read the size of memory");
  if (r == 0)
    r = plan_choose (&p, memory, &error);
  if (r == 0)
    r = compose (&p, b, &error);
  if (r == 0) {
    plan_print_choice (&p, "swap");
    if (b->plan.dry_run)
      printf ("would write %s:\n%s", p.path, p.text);
    else
      r = do_it (&p, &error);
  }
  plan_end (&p);
  return r < 0 ? say_error ("%s: %s", b->plan.command, error.text)
               : EXIT_SUCCESS;
}

int
borrow_swap_check (const char *command, const char *name)
{
  char path[VOLUME_FILE_PATH_MAX];
  struct fp_error error;
  int r = plan_find (path, name, "swapon", &error);

  return r < 0 ? say_error ("%s: %s", command, error.text) : EXIT_SUCCESS;
}

int
borrow_swap_undo (const char *command, const char *name)
{
  char path[VOLUME_FILE_PATH_MAX], unit[PLAN_UNIT_MAX];
  struct fp_error error;
  int r = volume_file_find (path, name, &error);

  plan_unit (unit, "farpage-swap", name);
  if (r == 0)
    r = unit_stop (unit, &error);
  if (r == 0)
    r = plan_detach (name, "swapoff", &error);
  if (r == 0)
    r = plan_remove (path, name, &error);
  return r < 0 ? say_error ("%s: %s", command, error.text) : EXIT_SUCCESS;
}
