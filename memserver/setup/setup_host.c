/* SPDX-License-Identifier: BSD-3-Clause */
/* setup_host.c - the settings, firewall and service of a memory server. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/size.h"
#include "memserver/setup/setup_int.h"

/* ---- settings ---- */

/* Replace the file at path: after a crash it is the old one or the new one. */
static int
replace (const char *path, const char *text)
{
  char tmp[OPTION_PATH_MAX + 8];
  FILE *f;
  int r = 0;

  snprintf (tmp, sizeof tmp, "%s.new", path);
  f = fopen (tmp, "we");
  if (f == NULL)
    return -errno;
  if (fputs (text, f) == EOF || fflush (f) != 0 || fsync (fileno (f)) < 0 ||
      fchmod (fileno (f), 0644) < 0)
    r = -errno;
  if (fclose (f) != 0 && r == 0)
    r = -errno;
  if (r == 0 && rename (tmp, path) < 0)
    r = -errno;
  if (r < 0)
    unlink (tmp);
  return r;
}

/* Make the directory that holds the file at path, readable by the service. */
static int
make_dir (const char *path)
{
  char dir[OPTION_PATH_MAX];

  snprintf (dir, sizeof dir, "%.*s", (int) (strrchr (path, '/') - path), path);
  if (mkdir (dir, 0755) < 0)
    return errno == EEXIST ? 0 : -errno;
  return chmod (dir, 0755) < 0 ? -errno : 0; /* whatever the umask */
}

bool
setup_is_configured (const struct setup *s)
{
  return s->options.size == s->bytes &&
         strcmp (s->options.tls.psk, s->key) == 0;
}

int
setup_config (const struct setup *s, struct fp_error *error)
{
  char size[FP_SIZE_STR_MAX], text[2 * OPTION_PATH_MAX];
  int r;

  if (setup_is_configured (s))
    return 0;
  fp_format_size_exact (s->bytes, size);
  snprintf (text, sizeof text,
            "# Written by 'farpage-memserver setup'.\n"
            "size = %s\n"
            "tls-psk = %s\n",
            size, s->key);
  printf ("%s %s: size = %s, tls-psk = %s\n",
          s->dry_run ? "would write" : "writing", s->dropin, size, s->key);
  if (s->dry_run)
    return 0;
  r = make_dir (s->dropin);
  if (r == 0)
    r = replace (s->dropin, text);
  return r < 0 ? fp_fail (error, r, "%s: %s", s->dropin, strerror (-r)) : 0;
}

/* ---- run a program ---- */

/* Print a command line and run it.  Fail unless it exits with 0. */
static int
run (const struct setup *s, struct fp_error *error, const char *const argv[])
{
  char line[256];
  size_t n = 0;
  int r;

  for (unsigned i = 0; argv[i] != NULL && n < sizeof line; i++)
    n += (size_t) snprintf (line + n, sizeof line - n, "%s%s",
                            i > 0 ? " " : "", argv[i]);
  printf ("%s: %s\n", s->dry_run ? "would run" : "running", line);
  if (s->dry_run)
    return 0;
  fflush (stdout);
  r = command_run (argv, true);
  if (r < 0)
    return fp_fail (error, r, "%s: %s", line, strerror (-r));
  return r == 0
             ? 0
             : fp_fail (error, -EIO,
                        "'%s' failed with exit status %d: see above", line, r);
}

#define RUN(...) run (s, error, (const char *const[]) { __VA_ARGS__, NULL })

/* ---- firewall ---- */

static int
open_port (const struct setup *s, const char *firewall, const char *port,
           struct fp_error *error)
{
  char add[64];
  int r;

  if (strcmp (firewall, "ufw") == 0)
    return RUN ("ufw", "allow", port);
  snprintf (add, sizeof add, "--add-port=%s", port);
  r = RUN ("firewall-cmd", "--quiet", add);
  return r < 0 ? r : RUN ("firewall-cmd", "--quiet", "--permanent", add);
}

/* Return "firewalld" or "ufw", the one that is active, or NULL. */
static const char *
active_firewall (void)
{
  static const char *const firewalld[] = { "timeout", "30", "firewall-cmd",
                                           "--state", NULL };
  static const char *const ufw[] = {
    "sh", "-c", "LC_ALL=C timeout 30 ufw status | grep -q '^Status: active'",
    NULL
  };

  if (command_run (firewalld, false) == 0)
    return "firewalld";
  return command_run (ufw, false) == 0 ? "ufw" : NULL;
}

int
setup_firewall (const struct setup *s, struct fp_error *error)
{
  const char *firewall = active_firewall ();
  char port[32];
  int r;

  if (firewall == NULL)
    return 0;
  for (unsigned i = 0; i < s->options.nr_listen; i++) {
    if (s->options.listen[i].is_unix || s->options.listen[i].port == 0)
      continue;
    snprintf (port, sizeof port, "%u/tcp", s->options.listen[i].port);
    r = open_port (s, firewall, port, error);
    if (r < 0)
      return r;
  }
  snprintf (port, sizeof port, "%d/tcp", FP_DEFAULT_PORT);
  r = s->options.nr_listen > 0 ? 0 : open_port (s, firewall, port, error);
  if (r < 0 || access ("/sys/class/infiniband", F_OK) < 0)
    return r;
  /* RoCE v2 (InfiniBand Architecture Specification, annex A17). */
  return open_port (s, firewall, "4791/udp", error);
}

/* ---- service ---- */

/* Return true if the service is of this machine's systemd, and reads this
 * configuration file.
 */
static bool
is_service (const struct setup *s)
{
  return sd_booted () > 0 && strcmp (s->config, DEFAULT_CONFIG) == 0;
}

bool
setup_is_serving (const struct setup *s)
{
  /* A server that is starting, or cannot be asked about, may have clients. */
  static const char *const argv[] = { "sh", "-c",
                                      "case $(systemctl is-active " SERVICE
                                      ") in inactive | failed) exit 1;; "
                                      "esac",
                                      NULL };

  return is_service (s) && command_run (argv, false) == 0;
}

int
setup_service (const struct setup *s, struct fp_error *error)
{
  static const char *const log[] = { "journalctl", "--no-pager",
                                     "--quiet",    "--output=cat",
                                     "--lines=8",  "--unit=" SERVICE,
                                     NULL };
  static const char *const is_enabled[] = { "systemctl", "is-enabled",
                                            "--quiet", SERVICE, NULL };
  struct fp_error ignored;
  bool enabled;
  int r;

  if (!is_service (s)) {
    printf ("to start the server, run\n"
            "  farpage-memserver --config %s\n",
            s->config);
    return 0;
  }
  enabled = command_run (is_enabled, false) == 0;
  if (s->serving)
    return enabled ? 0 : RUN ("systemctl", "enable", SERVICE);
  r = RUN ("systemctl", "enable", "--now", SERVICE);
  if (r == 0)
    return 0;
  (void) command_run (log, true); /* the log has the reason */
  /* systemd would try to start it without end. */
  if (!enabled)
    (void) run (s, &ignored,
                (const char *const[]) { "systemctl", "disable", "--now",
                                        SERVICE, NULL });
  return r;
}
