/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_status.c - farpage status: show what is attached, and its state. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/attach/front.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/plugin_status.h"
#include "tools/common/state.h"

static const char help[] =
    "Usage: farpage status [OPTION]... [DEVICE]...\n"
    "\n"
    "Show the devices that 'farpage attach' attached: all, or these.\n"
    "\n"
    "      --socket PATH   ask one plugin, by its status=PATH; for an nbdkit\n"
    "                      that farpage did not start\n"
    "      --json          print JSON\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "socket", required_argument, NULL, 's' },
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

static void
json_putp (struct json_object **op)
{
  json_object_put (*op);
}

static void
print_json (struct json_object *o)
{
  printf ("%s\n",
          json_object_to_json_string_ext (
              o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

static int
one_socket (const char *path, bool json)
{
  FP_CLEANUP (json_putp) struct json_object *o = NULL;
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  struct fp_error error;

  if (plugin_status_ask (&o, path, &error) < 0)
    return say_error ("status: %s", error.text);
  if (json)
    print_json (o);
  else if (plugin_status_parse (&doc, o, &error) < 0)
    return say_error ("status: %s: %s", path, error.text);
  else {
    printf ("%s\n", path);
    plugin_status_print (stdout, doc);
  }
  return EXIT_SUCCESS;
}

/* All that is known of a device. */
struct facts {
  struct state st;
  bool supervised, connected;
  struct swap_area swap;
  struct fp_error in_use; /* "": not in use */
  struct fp_error plugin_error;
  struct json_object *plugin; /* the document; NULL: see plugin_error */
};

static void
gather (struct facts *f, int index)
{
  struct fp_error error;
  char path[STATE_PATH_MAX];
  int lock;

  /* If the lock can be taken, no supervisor holds it. */
  if (state_lock (&lock, index, &error) == 0)
    close (lock);
  else
    f->supervised = true;
  f->connected = device_connected (index);
  (void) device_swap (index, &f->swap, NULL);
  if (!device_in_use (index, &f->in_use))
    f->in_use.text[0] = '\0';
  state_path (path, index, "status.sock");
  if (plugin_status_ask (&f->plugin, path, &f->plugin_error) < 0)
    f->plugin = NULL;
}

static void
print_plugin (const struct facts *f)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  struct fp_error error;

  if (!f->plugin)
    printf ("  plugin         does not answer: %s\n", f->plugin_error.text);
  else if (plugin_status_parse (&doc, f->plugin, &error) < 0)
    printf ("  plugin         %s\n", error.text);
  else
    plugin_status_print (stdout, doc);
}

static void
print_facts (const struct facts *f)
{
  char size[FP_SIZE_STR_MAX], used[FP_SIZE_STR_MAX];
  unsigned i;

  fp_format_size (f->st.size, size);
  printf ("%s  %s, %u %s", device_path (f->st.index).s, size,
          f->st.connections,
          device_is_ublk (f->st.index) ? "queues" : "connections");
  if (f->swap.active) {
    fp_format_size (f->swap.used, used);
    printf (", swapped to: %s used, priority %ld", used, f->swap.priority);
  }
  else if (*f->in_use.text)
    printf (", in use");
  printf ("\n  parameters    ");
  for (i = 0; i < f->st.nr_args; i++)
    printf (" %s", f->st.args[i]);
  printf ("\n  supervisor     pid %ld%s; %s pid %ld; %u restarts",
          (long) f->st.supervisor, f->supervised ? "" : " IS DEAD",
          front_of (f->st.index)->program, (long) f->st.nbdkit,
          f->st.restarts);
  if (!device_is_ublk (f->st.index))
    printf (", %u NBD connections replaced", f->st.reconnects);
  printf ("\n");
  printf ("  last event     %s\n", f->st.event);
  if (!f->connected)
    printf ("  NOT CONNECTED: 'farpage detach %s' cleans up\n",
            device_path (f->st.index).s);
  else if (!f->supervised)
    printf ("  NOT SUPERVISED: %s would not be restarted: stop using it,"
            " then run 'farpage detach %s'\n",
            front_of (f->st.index)->program, device_path (f->st.index).s);
  print_plugin (f);
}

static struct json_object *
facts_to_json (struct facts *f)
{
  struct json_object *o = state_to_json (&f->st);
  struct json_object *swap = NULL;

  json_object_object_add (o, "supervised",
                          json_object_new_boolean (f->supervised));
  json_object_object_add (o, "connected",
                          json_object_new_boolean (f->connected));
  json_object_object_add (o, "in_use",
                          json_object_new_boolean (*f->in_use.text != '\0'));
  if (f->swap.active) {
    swap = json_object_new_object ();
    json_object_object_add (swap, "size",
                            json_object_new_uint64 (f->swap.size));
    json_object_object_add (swap, "used",
                            json_object_new_uint64 (f->swap.used));
    json_object_object_add (swap, "priority",
                            json_object_new_int64 (f->swap.priority));
  }
  json_object_object_add (o, "swap_area", swap);
  json_object_object_add (o, "plugin", FP_STEAL (f->plugin));
  return o;
}

/* Add the device to devices if that is not NULL, or print it.  -errno: farpage
 * did not attach it.
 */
static int
show_device (int index, struct json_object *devices, struct fp_error *error)
{
  struct facts f = { 0 };
  int r = state_load (&f.st, index, error);

  if (r < 0)
    return r;
  gather (&f, index);
  if (devices)
    json_object_array_add (devices, facts_to_json (&f));
  else
    print_facts (&f);
  json_object_put (f.plugin);
  state_clear (&f.st);
  return 0;
}

/* Show all devices.  One without a state file was left half-made, or is being
 * made: that is an error.
 */
static int
show_all (struct json_object *devices)
{
  int shown = 0, status = EXIT_SUCCESS;
  struct fp_error error;

  for (int i = state_next (-1); i >= 0; i = state_next (i)) {
    if (show_device (i, devices, &error) < 0)
      status = say_error ("status: %s: %s", device_path (i).s, error.text);
    shown++;
  }
  if (shown == 0 && !devices)
    printf ("Nothing is attached.\n");
  return status;
}

static int
show (char *argv[], int n, bool json)
{
  FP_CLEANUP (json_putp) struct json_object *o = NULL;
  struct json_object *devices = NULL;
  int i, status = EXIT_SUCCESS;
  struct fp_error error;

  if (json) {
    o = json_object_new_object ();
    devices = json_object_new_array ();
    json_object_object_add (o, "version", json_object_new_int (1));
    json_object_object_add (o, "devices", devices);
  }
  if (n == 0)
    status = show_all (devices);
  for (i = 0; i < n; i++)
    if (show_device (device_index (argv[i]), devices, &error) < 0)
      status = say_error ("status: %s", error.text);
  if (json)
    print_json (o);
  return status;
}

int
cmd_status (int argc, char *argv[])
{
  const char *socket = NULL;
  bool json = false;
  int c, i, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "status", help, &status))
      return status;
    if (c == 's')
      socket = optarg;
    json = json || c == 'j';
  }
  if (socket && optind < argc)
    return say_usage ("status", "a device or --socket, not both");
  for (i = optind; i < argc; i++)
    if (device_index (argv[i]) < 0)
      return say_usage ("status", "%s: not a /dev/nbdX or /dev/ublkbX",
                        argv[i]);
  return socket ? one_socket (socket, json)
                : show (argv + optind, argc - optind, json);
}
