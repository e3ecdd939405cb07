/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_attach.c - farpage attach: start the supervisor of a new device, and
 * wait until it reports that all works.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/uuid.h"
#include "conf/duration.h"
#include "pool/pool.h"
#include "tools/attach/attachment.h"
#include "tools/attach/supervisor.h"
#include "tools/attach/syslog_sink.h"
#include "tools/attach/ublk_control.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/program.h"
#include "tools/common/volume_file.h"

#define MODPROBE_MS 10000
#define MAX_WORDS 256 /* limit for a command line with --config */

static const char help[] =
    "Usage: farpage attach [OPTION]... server=ADDR... size=SIZE "
    "[PARAMETER=VALUE]...\n"
    "\n"
    "Make a block device of memory that farpage-memserver lends on other\n"
    "machines, and print its name. The parameters are those of the nbdkit\n"
    "plugin, with ublk too: see nbdkit-farpage-plugin(1).\n"
    "\n"
    "  -d, --device DEVICE      use this /dev/nbdX or /dev/ublkbX\n"
    "                           (default: first free)\n"
    "      --front nbd|ublk|auto\n"
    "                           the kernel's NBD client and nbdkit "
    "(default),\n"
    "                           or ublk; auto: ublk if it can be used\n"
    "      --name NAME          add /dev/farpage/NAME "
    "(default: the volume's)\n"
    "      --connections N      use N NBD connections or ublk queues\n"
    "                           (default: one per CPU)\n"
    "      --device-timeout TIME\n"
    "                           send a request again after TIME (30s)\n"
    "      --dead-timeout TIME  fail requests after TIME without an\n"
    "                           nbdkit or farpage-ublk (2min)\n"
    "      --wait TIME          give up if the device does not work after "
    "TIME\n"
    "                           (60s)\n"
    "      --config NAME        take options and parameters from\n"
    "                           " SYSCONFDIR "/farpage/volumes.d/NAME.conf\n"
    "      --swap               prepare it for swap: real-time priority\n"
    "      --read-only          only read the volume, which must exist\n"
    "      --foreground         do not go into the background\n"
    "      --json               print the result as JSON\n"
    "      --help, --version\n";

struct options {
  struct state st;
  long wait;
  bool foreground, json, read_only;
  bool named;                /* the volume has a name */
  bool front_told;           /* --front was given */
  const struct front *front; /* NULL: auto */
  const char *config;        /* --config, or NULL */
};

enum {
  OPT_CONNECTIONS = 256,
  OPT_FRONT,
  OPT_NAME,
  OPT_TIMEOUT,
  OPT_OLD_TIMEOUT, /* former name of --device-timeout */
  OPT_DEAD,
  OPT_WAIT,
  OPT_CONFIG,
  OPT_SWAP,
  OPT_READ_ONLY,
  OPT_FOREGROUND,
  OPT_JSON
};

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "device", required_argument, NULL, 'd' },
  { "front", required_argument, NULL, OPT_FRONT },
  { "name", required_argument, NULL, OPT_NAME },
  { "connections", required_argument, NULL, OPT_CONNECTIONS },
  { "device-timeout", required_argument, NULL, OPT_TIMEOUT },
  { "timeout", required_argument, NULL, OPT_OLD_TIMEOUT },
  { "dead-timeout", required_argument, NULL, OPT_DEAD },
  { "wait", required_argument, NULL, OPT_WAIT },
  { "config", required_argument, NULL, OPT_CONFIG },
  { "swap", no_argument, NULL, OPT_SWAP },
  { "read-only", no_argument, NULL, OPT_READ_ONLY },
  { "foreground", no_argument, NULL, OPT_FOREGROUND },
  { "json", no_argument, NULL, OPT_JSON },
  { NULL, 0, NULL, 0 },
};

static bool
has_key (const char *arg, const char *key)
{
  size_t n = strlen (key);

  return !strncmp (arg, key, n) && arg[n] == '=';
}

/* Make a path in arg absolute, because the supervisor changes directory.
 * Return arg, or a copy that is never freed; NULL: out of memory.
 */
static char *
absolute (char *arg)
{
  static const char *const prefixes[] = { "server=unix:", "remove=unix:",
                                          "tls-psk=",     "tls-certificates=",
                                          "pool=",        "encrypt=" };
  char cwd[PATH_MAX], *out;

  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    size_t n = strlen (prefixes[i]);

    if (strncmp (arg, prefixes[i], n) != 0 || arg[n] == '/' ||
        /* A pool's name is not a path. */
        (!strcmp (prefixes[i], "pool=") && !strchr (arg, '/')) ||
        /* Nor are these words paths. */
        !strcmp (arg, "encrypt=ephemeral") || !strcmp (arg, "encrypt=off") ||
        !getcwd (cwd, sizeof cwd))
      continue;
    return asprintf (&out, "%s%s/%s", prefixes[i], cwd, arg + n) == -1 ? NULL
                                                                       : out;
  }
  return arg;
}

/* Add a parameter of the plugin, unless it is there. st.args keeps it for the
 * next nbdkit, too.
 */
static int
add_parameter (struct options *o, char *parameter)
{
  char **args; /* never freed */

  for (unsigned i = 0; i < o->st.nr_args; i++)
    if (!strcmp (o->st.args[i], parameter))
      return EXIT_SUCCESS;
  args = calloc (o->st.nr_args + 1, sizeof *args);
  if (!args)
    return say_error ("attach: out of memory");
  memcpy (args, o->st.args, o->st.nr_args * sizeof *args);
  args[o->st.nr_args++] = parameter;
  o->st.args = args;
  return EXIT_SUCCESS;
}

static int
add_readonly (struct options *o)
{
  static char readonly[] = "readonly=true";

  if (o->st.swap)
    return say_usage ("attach",
                      "--swap and --read-only contradict each other");
  return add_parameter (o, readonly);
}

/* Words in place of those on the command line. */
struct words {
  char **list;
  int n;
};

static int
add_word (struct words *w, char *word)
{
  char **more = realloc (w->list, ((size_t) w->n + 1) * sizeof *more);

  if (!more || !word)
    return -ENOMEM;
  w->list = more;
  more[w->n++] = word;
  return 0;
}

static int
add_server (void *arg, const char *key, const char *value,
            struct fp_error *error)
{
  char *word;

  if (asprintf (&word, "%s=%s", key, value) == -1 || add_word (arg, word) < 0)
    return fp_fail (error, -ENOMEM, "out of memory");
  return 0;
}

/* Remove the variables that only etcdctl needs, such as a password.  nbdkit
 * must not get them.
 */
static void
forget_etcd (void)
{
  extern char **environ;
  char **kept = environ;

  for (char **e = environ; *e; e++)
    if (strncmp (*e, "ETCDCTL_", 8) != 0 && !has_key (*e, "FARPAGE_ANNOUNCE"))
      *kept++ = *e;
  *kept = NULL;
}

static bool
is_varying_pool (const char *word)
{
  return has_key (word, "pool") && !fp_pool_is_file (strchr (word, '=') + 1);
}

/* Replace pools of DNS and etcd with their servers.  A restarted nbdkit must
 * not need DNS, etcd or etcdctl.
 */
static int
find_servers (int *argc, char **argv[])
{
  static struct words w; /* until the program ends */
  struct fp_error error = { .text = "out of memory" };
  const char *varies = NULL;
  bool named = false;

  for (int i = 0; i < *argc; i++) {
    named = named || has_key ((*argv)[i], "volume");
    if (is_varying_pool ((*argv)[i]))
      varies = (*argv)[i];
  }
  /* See fp_params_complete. */
  if (named && varies)
    return say_usage ("attach",
                      "%s: not for a volume with a name, because servers in "
                      "DNS or etcd change: give server=ADDR or a pool file, "
                      "or 'volume =' in the volume file for one without a "
                      "name",
                      varies);
  for (int i = 0; i < *argc; i++) {
    char *word = (*argv)[i];
    int r = is_varying_pool (word)
                ? fp_pool_read (strchr (word, '=') + 1, FP_POOL_ATTACH,
                                add_server, &w, &error)
                : add_word (&w, word);

    if (r < 0)
      return say_error ("attach: %s", error.text);
  }
  forget_etcd ();
  *argc = w.n;
  *argv = w.list;
  return EXIT_SUCCESS;
}

/* Check only what attach itself depends on. The plugin knows its parameters
 * and reports what is wrong with them.
 */
static int
check_parameters (struct options *o, int argc, char *argv[])
{
  static const struct {
    const char *key, *instead;
  } ours[] = {
    { "uuid", "attach sets this parameter itself" },
    { "resume", "attach sets this parameter itself" },
    { "status", "attach sets this parameter itself" },
    { "members", "attach sets this parameter itself" },
    { "keep", "attach sets this parameter itself" },
    { "client", "attach sets this parameter itself" },
    { "connections", "use --connections" },
    { "swap", "use --swap" },
  };
  /* size: size= was given, or the name of a volume, which may have one. */
  bool server = false, size = false;
  size_t k;
  int i;

  i = find_servers (&argc, &argv);
  if (i != EXIT_SUCCESS)
    return i;
  for (i = 0; i < argc; i++) {
    if (!strchr (argv[i], '=') || argv[i][0] == '=' || argv[i][0] == '-')
      return say_usage ("attach", "%s: not PARAMETER=VALUE", argv[i]);
    for (k = 0; k < sizeof ours / sizeof ours[0]; k++)
      if (has_key (argv[i], ours[k].key))
        return say_usage ("attach", "%s: %s", argv[i], ours[k].instead);
    server =
        server || has_key (argv[i], "server") || has_key (argv[i], "pool");
    argv[i] = absolute (argv[i]);
    if (!argv[i])
      return say_error ("attach: out of memory");
    size = size || has_key (argv[i], "size") || has_key (argv[i], "volume");
    o->named = o->named || has_key (argv[i], "volume");
    if (has_key (argv[i], "volume") && !*o->st.link &&
        state_link_ok (strchr (argv[i], '=') + 1))
      snprintf (o->st.link, sizeof o->st.link, "%s",
                strchr (argv[i], '=') + 1);
  }
  if (!server)
    return say_usage ("attach", "server=ADDR is missing (or pool=NAME)");
  if (!size)
    return say_usage ("attach", "size=SIZE is missing");
  o->st.args = argv;
  o->st.nr_args = (unsigned) argc;
  return o->read_only ? add_readonly (o) : EXIT_SUCCESS;
}

static int
bad_number (const char *option)
{
  return say_usage ("attach", "%s: '%s' is not a valid number", option,
                    optarg);
}

static int
bad_time (const char *option, const char *max)
{
  return say_usage ("attach",
                    "%s: '%s': must be from 1s to %s, in whole seconds",
                    option, optarg, max);
}

static bool
has_any (const struct options *o, const char *const *keys)
{
  for (; *keys; keys++)
    for (unsigned i = 0; i < o->st.nr_args; i++)
      if (has_key (o->st.args[i], *keys))
        return true;
  return false;
}

/* For swap with one copy the plugin's timeout is 10 s unless it is given
 * (SWAP_TIMEOUT_MS in its params.c), and the kernel must wait longer. If it
 * does not, give the plugin a shorter one.
 */
static int
nest_swap (struct options *o)
{
  static const char *const told[] = { "timeout", "copies", "volume", "pool",
                                      NULL };
  static char usual[] = "timeout=2000";

  if (!o->st.swap || o->st.timeout >= 20 || has_any (o, told))
    return EXIT_SUCCESS;
  return add_parameter (o, usual);
}

#define AWAIT_MAX_MS 600000u /* FP_TIMEOUT_MAX_MS of the plugin */

/* Let a request wait for servers nearly as long as the kernel waits for
 * nbdkit.
 */
static int
nest_await (struct options *o)
{
  static const char *const told[] = { "await", NULL };
  static char await[32];
  unsigned ms;

  if (has_any (o, told))
    return EXIT_SUCCESS;
  ms = o->st.timeout * 1000 / 6 * 5;
  snprintf (await, sizeof await, "await=%u",
            ms < AWAIT_MAX_MS ? ms : AWAIT_MAX_MS);
  return add_parameter (o, await);
}

/* Return true if argument i is key with a time, and set *us to it. */
static bool
is_time (const struct options *o, unsigned i, const char *key, uint64_t *us)
{
  size_t n = strlen (key);

  return !strncmp (o->st.args[i], key, n) &&
         fp_parse_duration (o->st.args[i] + n, FP_MS, us) == 0;
}

/* Deadlines nest: the plugin must have given up on a server before the kernel
 * gives up on the plugin.
 */
static int
check_timeouts (const struct options *o)
{
  const uint64_t device_us = o->st.timeout * FP_S;
  uint64_t us;

  if (o->st.dead_timeout < o->st.timeout)
    return say_usage (
        "attach", "--dead-timeout must not be shorter than --device-timeout");
  for (unsigned i = 0; i < o->st.nr_args; i++) {
    if (is_time (o, i, "timeout=", &us) && us > device_us / 2)
      return say_usage ("attach",
                        "%s: --device-timeout must be at least twice as long",
                        o->st.args[i]);
    if (is_time (o, i, "await=", &us) && us >= device_us)
      return say_usage ("attach", "%s: --device-timeout must be longer",
                        o->st.args[i]);
  }
  return -1;
}

static bool
parse_front (struct options *o, const char *s)
{
  o->front_told = true;
  o->front = strcmp (s, "nbd") == 0    ? &front_nbd
             : strcmp (s, "ublk") == 0 ? &front_ublk
                                       : NULL;
  return o->front != NULL || strcmp (s, "auto") == 0;
}

/* Load the kernel module of the front end, unless it is loaded.  Ignore
 * errors, because `claim` reports them.
 */
static void
load_module (const struct front *front)
{
  char modprobe[] = "modprobe", quiet[] = "-q", name[32], option[32] = "";
  char *const argv[] = { modprobe, quiet, name,
                         front->module_option != NULL ? option : NULL, NULL };
  char path[64], said[128];

  snprintf (path, sizeof path, "/sys/module/%s", front->module);
  if (access (path, F_OK) == 0)
    return;
  snprintf (name, sizeof name, "%s", front->module);
  if (front->module_option != NULL)
    snprintf (option, sizeof option, "%s", front->module_option);
  (void) run_program_within (said, sizeof said, argv, MODPROBE_MS);
}

/* Return the front end that "auto" means here. */
static const struct front *
best_front (void)
{
  struct utsname name;
  struct ublk_control c;
  struct fp_error error;

  if (uname (&name) == -1 || !ublk_kernel_is_tried (name.release))
    return &front_nbd;
  load_module (&front_ublk);
  if (ublk_control_open (&c, &error) < 0)
    return &front_nbd;
  ublk_control_close (&c);
  return &front_ublk;
}

/* Choose the front end: the device's name says it, or --front. */
static int
check_front (struct options *o)
{
  if (o->st.index != -1) {
    const struct front *named = front_of (o->st.index);

    if (o->front_told && o->front != NULL && o->front != named)
      return say_usage ("attach",
                        "--front and --device contradict each other");
    o->front = named;
  }
  if (o->front == NULL)
    o->front = best_front ();
  return EXIT_SUCCESS;
}

/* Parse the command line. Return -1 to go on, or an exit status. */
static int
parse (struct options *o, int argc, char *argv[])
{
  long n = sysconf (_SC_NPROCESSORS_ONLN);
  int c, status, r;

  o->st.index = -1;
  o->st.connections = n < 1 ? 1 : n > 64 ? 64 : (unsigned) n;
  o->st.timeout = 30;
  o->st.dead_timeout = 120;
  o->wait = 60;
  o->front = &front_nbd;
  while ((c = getopt_long (argc, argv, "d:hV", long_options, NULL)) != -1) {
    if (common_option (c, "attach", help, &status))
      return status;
    switch (c) {
    case 'd':
      o->st.index = device_index (optarg);
      if (o->st.index < 0)
        return say_usage ("attach", "%s: not a /dev/nbdX or /dev/ublkbX",
                          optarg);
      break;
    case OPT_FRONT:
      if (!parse_front (o, optarg))
        return say_usage ("attach", "--front: '%s': use nbd, ublk or auto",
                          optarg);
      break;
    case OPT_NAME:
      if (!state_link_ok (optarg))
        return say_usage ("attach",
                          "--name: '%s': use only letters, digits and"
                          " _.:=@+-, no '.' first, at most %d characters",
                          optarg, STATE_LINK_MAX - 1);
      snprintf (o->st.link, sizeof o->st.link, "%s", optarg);
      break;
    case OPT_CONNECTIONS:
      if (!parse_number (optarg, 1, 64, &n))
        return bad_number ("--connections");
      o->st.connections = (unsigned) n;
      break;
    case OPT_OLD_TIMEOUT:
      say_error ("attach: warning: --timeout is a former name: use "
                 "--device-timeout");
      /* fallthrough */
    case OPT_TIMEOUT:
      if (!parse_seconds (optarg, 1, 3600, &n))
        return bad_time ("--device-timeout", "1h");
      o->st.timeout = (unsigned) n;
      break;
    case OPT_DEAD:
      if (!parse_seconds (optarg, 1, 86400, &n))
        return bad_time ("--dead-timeout", "1d");
      o->st.dead_timeout = (unsigned) n;
      break;
    case OPT_WAIT:
      if (!parse_seconds (optarg, 1, 86400, &o->wait))
        return bad_time ("--wait", "1d");
      break;
    case OPT_CONFIG: /* expand_config has read it */
      break;
    case OPT_SWAP:
      o->st.swap = true;
      break;
    case OPT_READ_ONLY:
      o->read_only = true;
      break;
    case OPT_FOREGROUND:
      o->foreground = true;
      break;
    case OPT_JSON:
      o->json = true;
      break;
    }
  }
  if (o->config != NULL && strcmp (o->st.link, o->config) != 0)
    return say_usage ("attach", "--name and --config contradict each other");
  r = check_front (o);
  if (r == EXIT_SUCCESS)
    r = check_parameters (o, argc - optind, argv + optind);
  if (r == EXIT_SUCCESS)
    r = nest_swap (o);
  if (r == EXIT_SUCCESS)
    r = nest_await (o);
  return r == EXIT_SUCCESS ? check_timeouts (o) : r;
}

static void
print_attached (const struct options *o, const struct state *st)
{
  struct json_object *j;

  if (!o->json) {
    printf ("%s\n", device_path (st->index).s);
    return;
  }
  j = state_to_json (st);
  printf ("%s\n",
          json_object_to_json_string_ext (
              j, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
  json_object_put (j);
}

/* ---- in the foreground ---- */

struct foreground {
  const struct options *o;
  const struct attachment *a;
};

static bool
report_here (void *opaque, int err, const char *why)
{
  struct foreground *f = opaque;

  if (err < 0) {
    say_error ("attach: %s", why);
    return true;
  }
  print_attached (f->o, &f->a->st);
  sd_notifyf (0, "READY=1\nSTATUS=%s", device_path (f->a->st.index).s);
  return fflush (stdout) == 0;
}

/* ---- in the background ---- */

/* The contents of the pipe: index of the device, or an error. */
struct report {
  int err, index;
  struct fp_error error;
};

struct background {
  const struct attachment *a;
  int pipe;
};

static bool
report_to_parent (void *opaque, int err, const char *why)
{
  struct background *b = opaque;
  struct report r = { .err = err, .index = b->a->st.index };
  int null = open ("/dev/null", O_RDWR | O_CLOEXEC);
  bool heard;

  fp_fail (&r.error, 0, "%s", why);
  heard = write (b->pipe, &r, sizeof r) == (ssize_t) sizeof r;
  close (b->pipe);
  /* A program that reads our caller's output to its end must not wait for us.
   */
  dup2 (null, 0);
  dup2 (null, 1);
  dup2 (null, 2);
  close (null);
  return heard;
}

/* Print to the caller's standard error, which is ours until the report. */
static void
say_aloud (const char *line)
{
  fprintf (stderr, "farpage: attach: %s\n", line);
}

static pid_t child;

static void
pass_on (int sig)
{
  (void) sig;
  kill (child, SIGTERM);
}

static int
wait_for_report (const struct options *o, int fd)
{
  struct sigaction sa = { .sa_handler = pass_on, .sa_flags = SA_RESTART };
  struct report r;
  struct state st;
  ssize_t n;

  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);
  n = read (fd, &r, sizeof r);
  if (n != (ssize_t) sizeof r)
    return say_error ("attach: the supervisor died; 'farpage status' shows"
                      " what it left behind");
  if (r.err < 0) {
    waitpid (child, NULL, 0);
    return say_error ("attach: %s", r.error.text);
  }
  if (state_load (&st, r.index, &r.error) < 0)
    return say_error ("attach: %s", r.error.text);
  print_attached (o, &st);
  state_clear (&st);
  return EXIT_SUCCESS;
}

static int
run_background (const struct options *o, struct attachment *a)
{
  struct background b = { .a = a };
  int pipefd[2], status;

  if (pipe2 (pipefd, O_CLOEXEC) == -1)
    return say_error ("attach: pipe: %s", strerror (errno));
  fflush (NULL);
  child = fork ();
  if (child == -1)
    return say_error ("attach: fork: %s", strerror (errno));
  if (child > 0) {
    close (pipefd[1]);
    status = wait_for_report (o, pipefd[0]);
    close (pipefd[0]);
    return status;
  }
  close (pipefd[0]);
  b.pipe = pipefd[1];
  setsid ();
  if (chdir ("/") == -1)
    _exit (EXIT_FAILURE);
  syslog_sink_set (a->name);
  a->aloud = say_aloud;
  _exit (supervise (a, (unsigned) o->wait, report_to_parent, &b));
}

/* Get the value of --config, NULL if there is none. */
static int
find_config (int argc, char *argv[], const char **name)
{
  int c;

  *name = NULL;
  opterr = 0; /* `parse` says what is wrong */
  while ((c = getopt_long (argc, argv, "d:hV", long_options, NULL)) != -1) {
    if (c == OPT_CONFIG && *name != NULL)
      return say_usage ("attach", "give --config once");
    if (c == OPT_CONFIG)
      *name = optarg;
  }
  opterr = 1;
  optind = 0; /* getopt starts again */
  return EXIT_SUCCESS;
}

/* Insert the options of the volume file before those of the command line,
 * which win, because getopt reads them last.  Add the parameters at the end.
 */
static int
expand_config (struct options *o, int *argc, char ***argv)
{
  static struct volume_file f;
  static char *words[VOLUME_FILE_WORDS + MAX_WORDS + 1];
  struct fp_error error;
  int index, status, r;
  unsigned n = 0;

  status = find_config (*argc, *argv, &o->config);
  if (status != EXIT_SUCCESS || o->config == NULL)
    return status;
  if (*argc > MAX_WORDS)
    return say_usage ("attach", "more than %d arguments", MAX_WORDS);
  r = volume_file_read (&f, o->config, &error);
  if (r == 0)
    r = state_find_link (o->config, &index, &error);
  if (r < 0) {
    say_error ("attach: %s", error.text);
    return volume_file_status (r);
  }
  if (index >= 0) {
    say_error ("attach: %s is already attached as %s: run 'farpage detach "
               "--config %s' first",
               o->config, device_path (index).s, o->config);
    return EXIT_USAGE;
  }
  words[n++] = (*argv)[0];
  for (unsigned i = 0; i < f.nr_options; i++)
    words[n++] = f.words[i];
  for (int i = 1; i < *argc; i++)
    words[n++] = (*argv)[i];
  for (unsigned i = f.nr_options; i < f.nr_words; i++)
    words[n++] = f.words[i];
  *argc = (int) n;
  *argv = words;
  return EXIT_SUCCESS;
}

int
cmd_attach (int argc, char *argv[])
{
  struct attachment a = ATTACHMENT_INIT;
  struct fp_uuid client, volume;
  struct options o;
  int status;

  memset (&o, 0, sizeof o);
  status = expand_config (&o, &argc, &argv);
  if (status == EXIT_SUCCESS)
    status = parse (&o, argc, argv);
  if (status != -1)
    return status;
  if (geteuid () != 0)
    return say_error ("attach: only root can attach a block device");
  if (fp_uuid_generate (&client) < 0 || fp_uuid_generate (&volume) < 0)
    return say_error ("attach: cannot get random numbers from the kernel");
  load_module (o.front);
  a.st = o.st;
  a.front = o.front;
  fp_uuid_format (&client, a.st.uuid);
  if (!o.named) /* else it may exist */
    fp_uuid_format (&volume, a.st.volume);
  if (o.foreground) {
    struct foreground f = { .o = &o, .a = &a };

    fp_log_set_sink (fp_log_to_stderr, (void *) (uintptr_t) "farpage");
    return supervise (&a, (unsigned) o.wait, report_here, &f);
  }
  return run_background (&o, &a);
}
