/* SPDX-License-Identifier: BSD-3-Clause */
/* unit.h - first include of each unit test: config.h, cmocka and the headers
 * that cmocka needs before its own.
 */

#ifndef UNIT_H
#define UNIT_H

#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Run a program that is one group of tests. */
#define RUN_TESTS(tests) cmocka_run_group_tests (tests, NULL, NULL)

#endif /* UNIT_H */
