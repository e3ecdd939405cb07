/* SPDX-License-Identifier: BSD-3-Clause */
/* test-pool-dns.c - answers of a name server, good and bad. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pool/pool.h"

static unsigned char message[512];
static size_t length;
static char found[256];
static struct fp_error error;

static void
put (const void *bytes, size_t n)
{
  memcpy (message + length, bytes, n);
  length += n;
}
#define PUT(text) put (text, sizeof text - 1)

/* Begin an answer with so many records, about _a.b (RFC 1035, 4.1). */
static void
begin (unsigned char records)
{
  length = 0;
  PUT ("\0\1\x81\x80\0\1\0");
  put (&records, 1);
  PUT ("\0\0\0\0");
  PUT ("\2_a\1b\0\0\x21\0\1");
}

/* Add a record of a type with these bytes of data. */
static void
record (unsigned char type, const char *data, unsigned char n)
{
  PUT ("\xc0\x0c\0"); /* the name of the question */
  put (&type, 1);
  PUT ("\0\1\0\0\0\x3c\0");
  put (&n, 1);
  put (data, n);
}
#define SRV(data) record (33, data, sizeof data - 1)
#define HEAD "\0\0\0\0\x1d\x2f" /* priority, weight, port 7471 */

static int
set (void *arg, const char *key, const char *value, struct fp_error *why)
{
  size_t n = strlen (found);

  (void) arg;
  (void) why;
  snprintf (found + n, sizeof found - n, "%s=%s ", key, value);
  return 0;
}

static int
take (void)
{
  found[0] = '\0';
  return fp_pool_take_dns (message, length, set, NULL, &error);
}

static void
test_taken (void **state)
{
  (void) state;
  begin (5);
  record (5, "\1c\0", 3); /* CNAME */
  SRV (HEAD "\2d1\4test\0");
  SRV (HEAD "\0"); /* no server */
  SRV ("\0\7"
       "\0\0\x1d\x2f\2D1\4test\0"); /* again, with a priority */
  SRV ("\0\1\0\2\0\7\2d2\xc0\x0f"); /* the end is that of the question */
  assert_int_equal (take (), 0);
  assert_string_equal (found, "server=d1.test:7471 server=d2.b:7 ");
  begin (0);
  assert_int_equal (take (), 0);
  assert_string_equal (found, "");
}

static void
refused (const char *says)
{
  assert_int_equal (take (), -EPROTO);
  if (strstr (error.text, says) == NULL)
    fail_msg ("no '%s': %s", says, error.text);
}

static void
test_refused (void **state)
{
  (void) state;
  begin (1);
  SRV ("\0\0\0\0\0\0\2d1\0");
  refused ("no valid host and port");
  begin (1);
  SRV (HEAD "\4d1,x\0");
  refused ("no valid host and port");
  begin (1);
  SRV (HEAD "\4d1\n=\0");
  refused ("no valid host and port");
  begin (1);
  SRV (HEAD); /* no target */
  refused ("damaged");
  begin (1);
  SRV (HEAD "\xc0\xff"); /* beyond the end */
  refused ("damaged");
  begin (1);
  SRV (HEAD "\xc0\x26"); /* itself */
  refused ("damaged");
  begin (2); /* one is missing */
  SRV (HEAD "\2d1\0");
  refused ("damaged");
  begin (1);
  SRV (HEAD "\2d1\0");
  for (size_t all = length; length > 0; length--)
    if (length < all)
      refused ("damaged");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_taken),
    cmocka_unit_test (test_refused),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
