/* SPDX-License-Identifier: BSD-3-Clause */
/* header.c - the header of each message, the frames of the tcp data path and
 * the private data of an rdma_connect.  Also the numbers of message types,
 * statuses and transports, and their names.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "proto/messages.h"

static const struct {
  int err;
  uint32_t status;
} statuses[] = {
  { 0, FP_STATUS_OK },
  { -EPROTO, FP_STATUS_PROTO },
  { -EPROTONOSUPPORT, FP_STATUS_VERSION },
  { -EINVAL, FP_STATUS_INVAL },
  { -ENOSPC, FP_STATUS_NOSPC },
  { -EBUSY, FP_STATUS_BUSY },
  { -ENOENT, FP_STATUS_NOENT },
  { -EEXIST, FP_STATUS_EXIST },
  { -EPERM, FP_STATUS_PERM },
  { -ENOMEM, FP_STATUS_NOMEM },
  { -ESHUTDOWN, FP_STATUS_SHUTDOWN },
  { -EOPNOTSUPP, FP_STATUS_NOTSUP },
  { -EIO, FP_STATUS_IO },
};

uint32_t
fp_status_from_errno (int err)
{
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
    if (statuses[i].err == err)
      return statuses[i].status;
  return FP_STATUS_IO;
}

int
fp_status_to_errno (uint32_t status)
{
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
    if (statuses[i].status == status)
      return statuses[i].err;
  return -EIO;
}

const char *
fp_msg_name (unsigned type)
{
#define NAMED(m)                                                              \
  case FP_MSG_##m:                                                            \
    return #m;                                                                \
  case FP_MSG_##m | FP_MSG_REPLY:                                             \
    return #m " reply"

  switch (type) {
    NAMED (HELLO);
    NAMED (OPEN);
    NAMED (LIST);
    NAMED (GRANT);
    NAMED (LABEL);
    NAMED (RELEASE);
    NAMED (ZERO);
    NAMED (PING);
    NAMED (BYE);
    NAMED (STAT);
    NAMED (DATA_HELLO);
    NAMED (LOOKUP);
    NAMED (MEMBERS);
    NAMED (MAP);
    NAMED (MAP_READ);
    NAMED (MAP_WRITE);
    NAMED (DELETE);
    NAMED (VOLUMES);
    NAMED (TOKEN);
    NAMED (JOIN);
    NAMED (DRAIN);
  default:
    return "unknown message";
  }
#undef NAMED
}

static const struct {
  unsigned bit;
  const char *name;
} transports[] = {
  { FP_TRANSPORT_RDMA, "rdma" },
  { FP_TRANSPORT_SHM, "shm" },
  { FP_TRANSPORT_TCP, "tcp" },
  { FP_TRANSPORT_FAKE, "fake" },
};

const char *
fp_transport_name (unsigned transport)
{
  for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++)
    if (transports[i].bit == transport)
      return transports[i].name;
  return "none";
}

unsigned
fp_transport_by_name (const char *name)
{
  for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++)
    if (strcmp (transports[i].name, name) == 0)
      return transports[i].bit;
  return 0;
}

void
fp_header_encode (uint8_t out[FP_HEADER_SIZE], const struct fp_header *h)
{
  struct fp_writer w;

  fp_writer_init (&w, out, FP_HEADER_SIZE);
  fp_put_u32 (&w, FP_MAGIC);
  fp_put_u16 (&w, h->version);
  fp_put_u16 (&w, h->type);
  fp_put_u32 (&w, h->length);
  fp_put_u32 (&w, h->sequence);
  fp_put_u32 (&w, h->status);
  fp_put_u32 (&w, 0);
}

int
fp_header_decode (struct fp_header *h, const uint8_t in[FP_HEADER_SIZE])
{
  struct fp_reader r;
  uint32_t magic;

  fp_reader_init (&r, in, FP_HEADER_SIZE);
  magic = fp_get_u32 (&r);
  h->version = fp_get_u16 (&r);
  h->type = fp_get_u16 (&r);
  h->length = fp_get_u32 (&r);
  h->sequence = fp_get_u32 (&r);
  h->status = fp_get_u32 (&r);
  fp_get_u32 (&r); /* reserved, ignored: another version may use it */

  if (!fp_reader_done (&r) || magic != FP_MAGIC || h->length > FP_BODY_MAX)
    return -EPROTO;
  return 0;
}

void
fp_data_req_encode (uint8_t out[FP_DATA_REQ_SIZE], const struct fp_data_req *q)
{
  static const uint8_t zero[3];
  struct fp_writer w;

  fp_writer_init (&w, out, FP_DATA_REQ_SIZE);
  fp_put_u32 (&w, FP_DATA_MAGIC);
  fp_put_u8 (&w, q->op);
  fp_put_bytes (&w, zero, sizeof zero);
  fp_put_u32 (&w, q->cookie);
  fp_put_u32 (&w, q->length);
  fp_put_u64 (&w, q->rkey);
  fp_put_u64 (&w, q->raddr);
}

int
fp_data_req_decode (struct fp_data_req *q, const uint8_t in[FP_DATA_REQ_SIZE])
{
  struct fp_reader r;
  uint32_t magic;
  uint8_t zero[3];

  fp_reader_init (&r, in, FP_DATA_REQ_SIZE);
  magic = fp_get_u32 (&r);
  q->op = fp_get_u8 (&r);
  fp_get_bytes (&r, zero, sizeof zero);
  q->cookie = fp_get_u32 (&r);
  q->length = fp_get_u32 (&r);
  q->rkey = fp_get_u64 (&r);
  q->raddr = fp_get_u64 (&r);

  if (!fp_reader_done (&r) || magic != FP_DATA_MAGIC ||
      (q->op != FP_DATA_READ && q->op != FP_DATA_WRITE) ||
      (zero[0] | zero[1] | zero[2]) != 0 || q->length == 0 ||
      q->length > FP_DATA_MAX)
    return -EPROTO;
  return 0;
}

void
fp_data_reply_encode (uint8_t out[FP_DATA_REPLY_SIZE],
                      const struct fp_data_reply *p)
{
  struct fp_writer w;

  fp_writer_init (&w, out, FP_DATA_REPLY_SIZE);
  fp_put_u32 (&w, FP_DATA_REPLY_MAGIC);
  fp_put_u32 (&w, p->cookie);
  fp_put_u32 (&w, p->status);
  fp_put_u32 (&w, p->length);
}

int
fp_data_reply_decode (struct fp_data_reply *p,
                      const uint8_t in[FP_DATA_REPLY_SIZE])
{
  struct fp_reader r;
  uint32_t magic;

  fp_reader_init (&r, in, FP_DATA_REPLY_SIZE);
  magic = fp_get_u32 (&r);
  p->cookie = fp_get_u32 (&r);
  p->status = fp_get_u32 (&r);
  p->length = fp_get_u32 (&r);

  if (!fp_reader_done (&r) || magic != FP_DATA_REPLY_MAGIC ||
      p->length > FP_DATA_MAX || (p->status != FP_STATUS_OK && p->length != 0))
    return -EPROTO;
  return 0;
}

void
fp_cm_private_encode (uint8_t out[FP_CM_PRIVATE_SIZE],
                      const struct fp_data_hello *h)
{
  struct fp_writer w;

  fp_writer_init (&w, out, FP_CM_PRIVATE_SIZE);
  fp_put_u32 (&w, FP_MAGIC);
  fp_put_u16 (&w, FP_VERSION);
  fp_put_u16 (&w, 0);
  fp_put_u64 (&w, h->session);
  fp_put_bytes (&w, h->token, sizeof h->token);
  fp_put_u32 (&w, h->lane);
  fp_put_u32 (&w, 0);
}

int
fp_cm_private_decode (struct fp_data_hello *h, const uint8_t *in,
                      size_t length)
{
  struct fp_reader r;
  uint32_t magic, zero;
  uint16_t version;

  /* A longer length is normal: the CM passes its whole field, padded. */
  if (in == NULL || length < FP_CM_PRIVATE_SIZE)
    return -EPROTO;
  fp_reader_init (&r, in, FP_CM_PRIVATE_SIZE);
  magic = fp_get_u32 (&r);
  version = fp_get_u16 (&r);
  zero = fp_get_u16 (&r);
  h->session = fp_get_u64 (&r);
  fp_get_bytes (&r, h->token, sizeof h->token);
  h->lane = fp_get_u32 (&r);
  zero |= fp_get_u32 (&r);

  if (!fp_reader_done (&r) || magic != FP_MAGIC || version != FP_VERSION ||
      zero != 0)
    return -EPROTO;
  return 0;
}
