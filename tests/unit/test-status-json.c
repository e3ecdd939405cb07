/* SPDX-License-Identifier: BSD-3-Clause */
/* test-status-json.c - the tables of status fields: what goes out as JSON
 * comes back, and documents that are wrong do no harm.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/status_json.h"

static struct fp_status_doc from, to;
static struct json_object *o;
static struct fp_error error;

static int
setup (void **state)
{
  (void) state;
  memset (&from, 0, sizeof from);
  memset (&to, 0, sizeof to);
  o = NULL;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  json_object_put (o);
  return 0;
}

/* Give each number and text of the struct a value of its own, and fill all
 * lists.  Return the next value.
 */
static uint64_t
fill (const struct fp_field *f, char *of, uint64_t n)
{
  for (; f->type != FP_FIELD_END; f++) {
    char *at = of + f->offset;
    unsigned narrow = (unsigned) n, all;

    switch (f->type) {
    case FP_FIELD_BOOL:
      *(bool *) at = true;
      break;
    case FP_FIELD_ENUM:
      narrow = 1 + (unsigned) n % (f->nr_names - 1);
      narrow = f->names[narrow] != NULL ? narrow : 1;
      memcpy (at, &narrow, sizeof narrow);
      break;
    case FP_FIELD_NUMBER:
      if (f->size == sizeof n)
        memcpy (at, &n, sizeof n);
      else
        memcpy (at, &narrow, sizeof narrow);
      break;
    case FP_FIELD_TEXT:
      snprintf (at, f->size, "text %llu \xc3\xa4\"\\/",
                (unsigned long long) n);
      break;
    case FP_FIELD_UUID:
      memset (at, (int) n, f->size);
      break;
    case FP_FIELD_TABLE:
      n = fill (f->fields, at, n);
      break;
    case FP_FIELD_LIST:
      all = (unsigned) (f->size / f->each);
      memcpy (of + f->count, &all, sizeof all);
      for (unsigned i = 0; i < all; i++, at += f->each)
        if (f->fields != NULL)
          n = fill (f->fields, at, n);
        else {
          memcpy (at, &n, sizeof n);
          n++;
        }
      break;
    case FP_FIELD_END:
    default:
      break;
    }
    n++;
  }
  return n;
}

static void
read_text (const char *text)
{
  json_object_put (o);
  o = json_tokener_parse (text);
  memset (&to, 0, sizeof to);
}

static int
parse (const char *text)
{
  read_text (text);
  return fp_status_from_json (fp_status_fields, &to, o, &error);
}

static void
test_round_trip (void **state)
{
  struct json_object *back;

  (void) state;
  fill (fp_status_fields, (char *) &from, 1);
  /* Not in JSON. */
  from.volume.check.all_compared = 0;
  from.volume.check.all_differ = 0;
  from.volume.check.all_repaired = 0;
  o = fp_status_to_json (fp_status_fields, &from);
  assert_non_null (o);
  assert_int_equal (fp_status_from_json (fp_status_fields, &to, o, &error), 0);
  assert_memory_equal (&from, &to, sizeof to);
  back = fp_status_to_json (fp_status_fields, &to);
  assert_true (json_object_equal (o, back));
  json_object_put (back);
}

static void
test_nothing (void **state)
{
  struct json_object *volume, *list;

  (void) state;
  o = fp_status_to_json (fp_status_fields, &from);
  assert_non_null (o);
  assert_true (json_object_object_get_ex (o, "volume", &volume));
  assert_true (json_object_object_get_ex (volume, "sealed", &list));
  assert_null (list);
  assert_true (json_object_object_get_ex (volume, "hedges", &list));
  assert_non_null (list);
  assert_true (json_object_object_get_ex (o, "servers", &list));
  assert_int_equal (json_object_array_length (list), 0);
  assert_int_equal (fp_status_from_json (fp_status_fields, &to, o, &error), 0);
  assert_memory_equal (&from, &to, sizeof to);
  /* A server that is not drained, and never was connected. */
  from.nr_servers = 1;
  json_object_put (o);
  o = fp_status_to_json (fp_status_fields, &from);
  assert_true (json_object_object_get_ex (o, "servers", &list));
  list = json_object_array_get_idx (list, 0);
  assert_true (json_object_object_get_ex (list, "drain", &volume));
  assert_null (volume);
  assert_true (json_object_object_get_ex (list, "transport", &volume));
  assert_string_equal (json_object_get_string (volume), "");
}

static void
test_others (void **state)
{
  (void) state;
  /* Fields that are missing, unknown, or of another type. */
  assert_int_equal (parse ("{}"), 0);
  assert_int_equal (parse ("{\"pid\": 7, \"new\": [1, {}], \"volume\": 5,"
                           " \"servers\": {}, \"changes\": [3, null],"
                           " \"check\": null, \"realtime\": \"x\"}"),
                    0);
  assert_int_equal (to.pid, 7);
  assert_int_equal (to.nr_servers, 0);
  assert_int_equal (to.nr_changes, 2);
  assert_string_equal (to.changes[1].what, "");
  assert_int_equal (parse ("[1, 2]"), 0);
  assert_int_equal (parse ("null"), 0);
  /* Too much, and characters that a terminal obeys. */
  assert_int_equal (
      parse ("{\"changes\": [{}, {}, {}, {}, {}, {}, {}, {}, {\"ns\": 1}],"
             " \"volume\": {\"fenced_by\": \"a\\u001b[2J\\u007f\\nb\","
             "  \"copies\": 18446744073709551615, \"extents\": -1}}"),
      0);
  assert_int_equal (to.nr_changes, FP_MAX_CHANGES);
  assert_string_equal (to.volume.fenced_by, "a?[2J??b");
  assert_int_equal (to.volume.extents, 0);
  assert_int_equal (
      parse ("{\"changes\": [{\"what\": \"01234567890123456\"}]}"), 0);
  assert_string_equal (to.changes[0].what, "012345678901234");
}

static void
test_refused (void **state)
{
  (void) state;
  assert_int_equal (parse ("{\"servers\": [{}, {\"state\": \"odd\"}]}"),
                    -EPROTO);
  assert_string_equal (error.text, "unknown state 'odd'");
  assert_int_equal (parse ("{\"volume\": {\"uuid\": \"12\"}}"), -EPROTO);
  assert_string_equal (error.text, "uuid is not a UUID");
  assert_int_equal (parse ("{\"volume\": {\"uuid\": null}}"), -EPROTO);
  assert_int_equal (
      parse ("{\"servers\": [{\"transport\": \"\", \"state\": \"lost\"}]}"),
      0);
  assert_int_equal (to.servers[0].state, FP_SERVER_LOST);
}

/* Check two rows of a table, f and an earlier one. */
static void
check_rows (const struct fp_field *f, const struct fp_field *g)
{
  assert_true (g->offset + g->size <= f->offset ||
               f->offset + f->size <= g->offset || f->type == FP_FIELD_TABLE ||
               g->type == FP_FIELD_TABLE);
  if (f->key != NULL && g->key != NULL)
    assert_string_not_equal (f->key, g->key);
  if (f->metric == NULL || g->metric == NULL ||
      strcmp (f->metric, g->metric) != 0)
    return;
  assert_string_equal (g[1].metric, f->metric);
  assert_string_equal (g->help, f->help);
  assert_string_equal (g->label, f->label);
  assert_string_not_equal (g->value, f->value);
}

/* Check the rules of status_fields.h for the rows of a table. */
static void
check_table (const struct fp_field *fields)
{
  for (const struct fp_field *f = fields; f->type != FP_FIELD_END; f++) {
    for (const struct fp_field *g = fields; g != f; g++)
      check_rows (f, g);
    assert_true (f->key != NULL || f->metric != NULL);
    assert_true ((f->metric == NULL) == (f->help == NULL));
    if (f->type == FP_FIELD_NUMBER)
      assert_true (f->size == 8 || f->size == 4);
    if (f->type == FP_FIELD_BOOL)
      assert_int_equal (f->size, sizeof (bool));
    if (f->type == FP_FIELD_UUID)
      assert_int_equal (f->size, sizeof (struct fp_uuid));
    if (f->type == FP_FIELD_ENUM) {
      assert_int_equal (f->size, 4);
      assert_true (f->metric == NULL ||
                   (f->label != NULL && f->value == NULL));
    }
    if (f->type == FP_FIELD_LIST)
      assert_int_equal (f->size % f->each, 0);
    if (f->optional)
      assert_true (f->fields[0].type == FP_FIELD_BOOL ||
                   f->fields[0].type == FP_FIELD_ENUM);
    if (f->fields != NULL)
      check_table (f->fields);
  }
}

/* Some members, by their names in JSON. */
static void
test_names (void **state)
{
  struct json_object *golden, *list;

  (void) state;
  from.volume.read_ns.p99 = 99;
  from.volume.bytes_to_resync = 98;
  from.volume.stripe.width = 97;
  from.volume.fenced = true;
  from.nr_servers = 1;
  from.servers[0].transport = FP_TRANSPORT_TCP;
  from.servers[0].reclaim.reclaimed = 96;
  from.servers[0].drain.state = FP_DRAIN_MOVING;
  from.servers[0].drain.left = 95;
  from.volume.check.state = FP_CHECK_DONE;
  from.volume.check.nr_offsets = 2;
  from.volume.check.offsets[0] = 94;
  from.volume.check.offsets[1] = 93;
  assert_int_equal (
      parse ("{\"volume\": {\"read_latency_ns\": {\"p99\": 99},"
             "  \"bytes_to_resync\": 98, \"stripe_width\": 97,"
             "  \"fenced\": true},"
             " \"servers\": [{\"transport\": \"tcp\","
             "  \"extents_reclaimed\": 96,"
             "  \"drain\": {\"state\": \"draining\", \"left\": 95}}],"
             " \"check\": {\"state\": \"done\", \"offsets\": [94, 93]}}"),
      0);
  assert_memory_equal (&from, &to, sizeof to);
  golden = fp_status_to_json (fp_check_fields, &from.volume.check);
  assert_true (json_object_object_get_ex (golden, "offsets", &list));
  assert_string_equal (json_object_to_json_string_ext (list, 0), "[94,93]");
  json_object_put (golden);
}

static void
test_tables (void **state)
{
  (void) state;
  check_table (fp_status_fields);
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_round_trip), TEST (test_nothing), TEST (test_others),
    TEST (test_refused),    TEST (test_names),   TEST (test_tables),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
