/* SPDX-License-Identifier: BSD-3-Clause */
/* messages.h - the control messages: what each one carries, one encoder
 * and one decoder for each, and the limits that bound them.
 *
 * On the wire a message is a header of FP_HEADER_SIZE bytes and a body of
 * header.length bytes; every field is big-endian and of fixed width, a
 * string is a u16 length and that many bytes without a NUL.  A session is
 * one stream socket (TCP or Unix).  The client asks, the server answers
 * each request once and in order: type | FP_MSG_REPLY, the same sequence.
 * docs/PROTOCOL.md has the layout byte by byte.
 *
 * A reply whose header.status is not FP_STATUS_OK has a body that is one
 * string: the reason, for a person to read.
 *
 * Grants of a `shm` session carry file descriptors (SCM_RIGHTS), one memfd
 * for each grant that is not lost, in the order of the grants, with the first
 * byte of the reply.
 *
 * Errors:   decoders return 0 or -EPROTO; nothing is believed before the
 *           whole body was read and each count and range was checked.
 * Threads:  no shared state.
 * Memory:   nothing allocates; strings are copied into fixed arrays.
 */

#ifndef FP_MESSAGES_H
#define FP_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/uuid.h"
#include "proto/wire.h"

#define FP_MAGIC UINT32_C (0x46506743)      /* "FPgC", control */
#define FP_DATA_MAGIC UINT32_C (0x46506744) /* "FPgD", tcp data request */
#define FP_DATA_REPLY_MAGIC UINT32_C (0x46506752) /* "FPgR" */
#define FP_VERSION 2 /* docs/PROTOCOL.md says when to raise it */

#define FP_HEADER_SIZE 24
#define FP_BODY_MAX 16384 /* bytes; a longer message ends the session */
#define FP_NAME_MAX 64    /* bytes of a name, without a NUL */
#define FP_REASON_MAX 240
#define FP_TOKEN_SIZE 16
#define FP_MAX_GRANTS 64 /* grants, labels or slabs in one message */
#define FP_MAX_SESSIONS_LISTED 48
#define FP_MAX_RDMA_ADDRS 4
#define FP_MAX_MEMBERS 64
#define FP_MAP_WORDS 1024 /* of 64 extents, in one message */
#define FP_MAX_VOLUMES_LISTED 48
/* Least number of former clients of a volume that a server remembers:
 * docs/PROTOCOL.md, OPEN, PERM.
 */
#define FP_FORMER_MIN 64u
#define FP_WIRE_COPIES_MAX 16 /* copies of an extent; a copy is 0..15 */
/* The map of a volume has a bit for each copy of each extent: those of copy 0
 * first.  Where there are several one more says that a client is at work.
 */
static inline uint64_t
fp_map_bits (uint64_t extents, uint32_t copies)
{
  return extents * copies + (copies > 1);
}

#define FP_STRIPE_WIDTH_MAX 64
#define FP_STRIPE_SIZE_MIN 4096
#define FP_STRIPE_ROWS_MAX (1u << 24) /* stripe units in a slab */
#define FP_EXTENT_NONE UINT64_MAX     /* a grant that has no label yet */

enum fp_msg_type {
  FP_MSG_HELLO = 1,       /* who are you, what can you do */
  FP_MSG_OPEN = 2,        /* attach a volume to this session */
  FP_MSG_LIST = 3,        /* the labelled slabs of this volume, in pages */
  FP_MSG_GRANT = 4,       /* lend me so many slabs */
  FP_MSG_LABEL = 5,       /* these slabs now hold these extents */
  FP_MSG_RELEASE = 6,     /* take these slabs back */
  FP_MSG_ZERO = 7,        /* zero a range of a slab */
  FP_MSG_PING = 8,        /* heartbeat; renews the lease */
  FP_MSG_BYE = 9,         /* end the session in order */
  FP_MSG_STAT = 10,       /* what the server lends, and to whom */
  FP_MSG_DATA_HELLO = 11, /* first message of a tcp data connection */
  /* Volumes with a name: */
  FP_MSG_LOOKUP = 12,    /* what do you know of this volume */
  FP_MSG_MEMBERS = 13,   /* these are its servers from now on */
  FP_MSG_MAP = 14,       /* these extents exist now, or do not */
  FP_MSG_MAP_READ = 15,  /* which extents exist, in pages */
  FP_MSG_MAP_WRITE = 16, /* the same, from one who knows better */
  FP_MSG_DELETE = 17,    /* scrub and forget a volume */
  FP_MSG_VOLUMES = 18,   /* which volumes there are, in pages */

  FP_MSG_TOKEN = 19 /* what the next data connection has to show */
};
#define FP_MSG_REPLY 0x8000

/* Status of a reply.  Numbers of the protocol, not of any system. */
enum fp_status {
  FP_STATUS_OK = 0,
  FP_STATUS_PROTO = 1,     /* -EPROTO: malformed, or out of turn */
  FP_STATUS_VERSION = 2,   /* -EPROTONOSUPPORT */
  FP_STATUS_INVAL = 3,     /* -EINVAL */
  FP_STATUS_NOSPC = 4,     /* -ENOSPC: nothing left to lend */
  FP_STATUS_BUSY = 5,      /* -EBUSY: another client has it */
  FP_STATUS_NOENT = 6,     /* -ENOENT: no such volume or slab */
  FP_STATUS_EXIST = 7,     /* -EEXIST */
  FP_STATUS_PERM = 8,      /* -EPERM */
  FP_STATUS_NOMEM = 9,     /* -ENOMEM */
  FP_STATUS_SHUTDOWN = 10, /* -ESHUTDOWN: the server is stopping */
  FP_STATUS_NOTSUP = 11,   /* -EOPNOTSUPP */
  FP_STATUS_IO = 12        /* -EIO: anything else */
};

uint32_t fp_status_from_errno (int err);  /* err is 0 or negative */
int fp_status_to_errno (uint32_t status); /* unknown numbers are -EIO */

/* "HELLO", "GRANT reply", ...; never NULL. */
const char *fp_msg_name (unsigned type);

/* Transports, as a set.  Also the order of preference, best first. */
#define FP_TRANSPORT_RDMA 1u
#define FP_TRANSPORT_SHM 2u
#define FP_TRANSPORT_TCP 4u
#define FP_TRANSPORT_FAKE 8u /* never on the wire */
#define FP_TRANSPORT_WIRE_MASK 7u

const char *fp_transport_name (unsigned transport); /* one bit */
unsigned fp_transport_by_name (const char *name);   /* 0: no such */

struct fp_header {
  uint16_t version;
  uint16_t type;
  uint32_t length; /* of the body, bytes */
  uint32_t sequence;
  uint32_t status;
};

/* Encode into exactly FP_HEADER_SIZE bytes. */
void fp_header_encode (uint8_t out[FP_HEADER_SIZE], const struct fp_header *h);
/* -EPROTO: not our magic, or a body longer than FP_BODY_MAX.  The version
 * is not judged here: a HELLO of another version is answered.
 */
int fp_header_decode (struct fp_header *h, const uint8_t in[FP_HEADER_SIZE]);

/* Each message: request and reply. */

struct fp_hello {
  uint16_t version_min, version_max;
  uint32_t transports; /* what the client can use; dec drops unknown bits */
  uint64_t features;   /* FP_FEATURE_*; unknown ones are not taken up */
  struct fp_uuid client;
  char name[FP_NAME_MAX + 1]; /* "host:pid", for people */
};

struct fp_hello_reply {
  uint16_t version;
  uint32_t transports;   /* what the server can offer this client */
  uint64_t features;     /* what both know of FP_FEATURE_AHEAD */
  struct fp_uuid server; /* a new one each time the server starts empty */
  char name[FP_NAME_MAX + 1];
  uint64_t slab_size; /* bytes */
  uint64_t slabs_total;
  uint64_t slabs_free; /* could be granted, now or once scrubbed */
  uint32_t lease_ms;
  uint64_t session;
  /* Where rdma_cm listens.  An address whose host part is empty or a
   * wildcard means: the host that the control connection went to.
   */
  uint32_t nr_rdma;
  char rdma[FP_MAX_RDMA_ADDRS][FP_ADDR_MAX + 1];
};

/* How the bytes of a volume lie in its extents (lib/extent/stripe.h), from
 * when it is made on.  The servers only keep it: who attaches the volume has
 * to find them where they were put.
 */
struct fp_stripe {
  uint32_t width; /* extents, 1..FP_STRIPE_WIDTH_MAX; 1: one after the other */
  uint64_t size;  /* bytes, a power of two: of each extent in turn */
};

/* As above, and neither larger than a slab nor too small for it. */
bool fp_stripe_ok (const struct fp_stripe *s, uint64_t slab_size);

#define FP_OPEN_CREATE 1u    /* it must not exist yet */
#define FP_OPEN_RESUME 2u    /* it must exist, left behind by its client */
#define FP_OPEN_EPHEMERAL 4u /* gone when the lease ends or at BYE */
/* Whoever has it loses it first: its session ends, and with it every key. */
#define FP_OPEN_TAKEOVER 8u
/* Who has had it all along says on how many servers it is now. */
#define FP_OPEN_RECOUNT 16u
/* Only to read it: without this who may do no more is refused. */
#define FP_OPEN_READ_ONLY 32u
#define FP_OPEN_FLAGS 63u

struct fp_open {
  uint32_t flags;     /* CREATE, RESUME, or both: either will do */
  uint32_t transport; /* one bit */
  struct fp_uuid volume;
  char name[FP_NAME_MAX + 1]; /* may be empty */
  uint64_t size;              /* bytes */
  uint64_t slab_size;         /* must be the server's */
  uint32_t copies;
  uint32_t servers; /* of the whole volume */
  struct fp_stripe stripe;
};

struct fp_open_reply {
  bool resumed;
  uint64_t epoch;  /* one more at each attach by who may write */
  uint64_t labels; /* how many labelled slabs LIST will show */
};

struct fp_grant {
  uint64_t slab;   /* the server's number for it */
  uint64_t extent; /* FP_EXTENT_NONE: not labelled yet */
  uint32_t copy;
  uint64_t generation;
  uint64_t raddr; /* what the transport's address of byte 0 is */
  uint64_t rkey;
  uint64_t length; /* bytes, with its tail; 0: see fp_grant_is_lost */
};

/* What is granted may be longer than a slab, if the client says in HELLO that
 * it knows: these bytes at least, right behind the slab.  They are zeros when
 * it is lent anew, and else as the client left them.
 */
#define FP_FEATURE_TAIL 1u
#define FP_TAIL_SIZE 256u

/* Only in a reply to LIST: the slab held this extent, and the server had to
 * give it up.  What the extent held is lost: it is not as if never written.
 * RELEASE removes the mark.
 */
static inline bool
fp_grant_is_lost (const struct fp_grant *g)
{
  return g->length == 0;
}

struct fp_list {
  uint64_t start; /* index of the first label wanted */
  uint32_t max;   /* 1..FP_MAX_GRANTS */
};

/* In HELLO the client says that it asks ahead of need, and in the reply the
 * server that it knows what that is.
 */
#define FP_FEATURE_AHEAD 2u

struct fp_grant_req {
  uint32_t count; /* 1..FP_MAX_GRANTS; fewer may come, none is NOSPC */
  /* The slabs are needed only later: if none is ready the reply is NOSPC at
   * once.  Sent only to a server that knows it (FP_FEATURE_AHEAD).
   */
  bool ahead;
};

struct fp_grants { /* reply to LIST and to GRANT */
  uint32_t count;
  struct fp_grant grants[FP_MAX_GRANTS];
};

/* In a label's generation, which without it is below that: another server may
 * have a label of the extent that counts instead, and has to be asked first.
 */
#define FP_GENERATION_OPEN (UINT64_C (1) << 63)

struct fp_label {
  uint64_t slab;
  uint64_t extent;
  uint32_t copy;
  uint64_t generation;
};

struct fp_labels { /* all or none take effect; the reply is empty */
  uint32_t count;
  struct fp_label labels[FP_MAX_GRANTS];
};

struct fp_release { /* the reply, empty, means: the keys open nothing */
  uint32_t count;
  uint64_t slabs[FP_MAX_GRANTS];
};

struct fp_zero {
  uint64_t slab;
  uint64_t offset;
  uint64_t length;
};

struct fp_ping_reply { /* the request is empty */
  uint64_t slabs_total;
  uint64_t slabs_free;
  bool stopping;
  uint64_t wanted; /* so many of this session's slabs it asks back for */
};

struct fp_bye { /* the reply is empty */
  bool discard; /* free and scrub the volume now, do not wait for a lease */
};

struct fp_stat_session {
  char client[FP_NAME_MAX + 1];
  char volume[FP_NAME_MAX + 1]; /* name, or UUID of an unnamed one */
  uint32_t transport;           /* 0: no volume open */
  uint64_t slabs;
  uint64_t since; /* seconds since 1970 */
  bool attached;  /* false: left behind, until its lease is over or for good */
};

struct fp_stat_reply { /* the request is empty */
  char name[FP_NAME_MAX + 1];
  struct fp_uuid server;
  uint64_t slab_size;
  uint64_t total, free, lent, scrubbing, unpopulated; /* slabs */
  uint64_t uptime_s;
  bool stopping;
  bool pressed;         /* its host is short of memory: it lends nothing now */
  bool insecure;        /* other machines may come to it without TLS */
  uint64_t wanted;      /* slabs that it asks back, of all clients */
  uint64_t returned;    /* to its host because of that, since it started */
  uint32_t nr_sessions; /* listed here, FP_MAX_SESSIONS_LISTED at most */
  uint32_t nr_all;      /* there are */
  struct fp_stat_session sessions[FP_MAX_SESSIONS_LISTED];
};

/* Asked on the control connection before each data connection: one shows it,
 * once.
 */
struct fp_token_req {
  uint32_t lane;
};

struct fp_token {
  uint8_t token[FP_TOKEN_SIZE];
};

struct fp_data_hello { /* the reply is empty */
  uint64_t session;
  uint8_t token[FP_TOKEN_SIZE]; /* of this lane */
  uint32_t lane;
};

/* ---- volumes with a name ----
 *
 * Such a volume outlives its client, so its servers keep two things about it,
 * and no file of a client does: who they are (members), and which extents
 * exist (the map).  docs/PROTOCOL.md says what the order of changes has to be.
 */

struct fp_member {
  struct fp_uuid server;        /* of its HELLO */
  char addr[FP_ADDR_MAX + 1];   /* where the client that wrote this found it */
  char domain[FP_NAME_MAX + 1]; /* failure domain; may be empty */
  bool current;                 /* it has heard of every change of the map */
};

struct fp_members { /* the reply is empty */
  uint64_t version; /* higher than the one that the server has, if another */
  uint32_t count;   /* 1..FP_MAX_MEMBERS, no server twice */
  struct fp_member members[FP_MAX_MEMBERS];
};

struct fp_lookup {
  struct fp_uuid volume;      /* nil: by name */
  char name[FP_NAME_MAX + 1]; /* "": by UUID */
};

struct fp_volume_entry {
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1]; /* may be empty */
  uint64_t size, slab_size;   /* bytes */
  uint32_t copies;
  struct fp_stripe stripe;
  uint64_t slabs;   /* of it on this server, with a label */
  uint64_t extents; /* that exist, as this server's map says */
  uint32_t members; /* in its list of them; 0: it has none */
  uint64_t created; /* seconds since 1970 */
  bool ephemeral;
  bool attached;                /* to client, since; else left by it */
  char client[FP_NAME_MAX + 1]; /* "": nobody yet */
  uint64_t since;               /* seconds since 1970 */
};

struct fp_lookup_reply { /* or NOENT */
  struct fp_volume_entry volume;
  uint64_t epoch;
  /* For so long nobody but its last client gets it here; 0: not, or attached.
   */
  uint32_t fenced_ms;
  struct fp_members members; /* version 0, none: nothing was written yet */
};

struct fp_map_change { /* all or none take effect; the reply is empty */
  bool exist;
  uint32_t count;
  uint64_t extents[FP_MAX_GRANTS];
};

struct fp_map_read {
  uint64_t start; /* an extent, a multiple of 64 */
  uint32_t count; /* of words, 1..FP_MAP_WORDS */
};

/* Reply to MAP_READ, with as many words as were asked for; and MAP_WRITE,
 * whose reply is empty.  Bit n of word w is extent start + 64 * w + n; beyond
 * the end of the volume all are 0.
 */
struct fp_map_words {
  uint64_t start;
  uint32_t count;
  uint64_t words[FP_MAP_WORDS];
};

struct fp_delete { /* the reply is empty; BUSY: it is attached */
  struct fp_uuid volume;
};

struct fp_volumes_req {
  uint32_t start; /* index of the first one wanted */
};

struct fp_volumes {
  uint32_t total; /* there are */
  uint32_t count; /* in this reply */
  struct fp_volume_entry volumes[FP_MAX_VOLUMES_LISTED];
};

/* In every pair: enc appends to w (check fp_writer_ok once after), dec
 * reads all of r, checks every count, flag and string, and returns 0 or
 * -EPROTO.  Names must be valid: see fp_name_ok.
 */
#define FP_MESSAGE(name)                                                      \
  void fp_enc_##name (struct fp_writer *w, const struct fp_##name *m);        \
  int fp_dec_##name (struct fp_reader *r, struct fp_##name *m)

FP_MESSAGE (hello);
FP_MESSAGE (hello_reply);
FP_MESSAGE (open);
FP_MESSAGE (open_reply);
FP_MESSAGE (list);
FP_MESSAGE (grant_req);
FP_MESSAGE (grants);
FP_MESSAGE (labels);
FP_MESSAGE (release);
FP_MESSAGE (zero);
FP_MESSAGE (ping_reply);
FP_MESSAGE (bye);
FP_MESSAGE (stat_reply);
FP_MESSAGE (token_req);
FP_MESSAGE (token);
FP_MESSAGE (data_hello);
FP_MESSAGE (lookup);
FP_MESSAGE (lookup_reply);
FP_MESSAGE (members);
FP_MESSAGE (map_change);
FP_MESSAGE (map_read);
FP_MESSAGE (map_words);
FP_MESSAGE (delete);
FP_MESSAGE (volumes_req);
FP_MESSAGE (volumes);

/* What the decoders ask of these, for who has them from elsewhere. */
bool fp_volume_entry_ok (const struct fp_volume_entry *e);
/* None, with version 0; or some, of whom one at least is current. */
bool fp_members_ok (const struct fp_members *m);

/* The reason that goes with a status that is not OK. */
void fp_enc_reason (struct fp_writer *w, const char *reason);
int fp_dec_reason (struct fp_reader *r, char out[FP_REASON_MAX + 1]);

/* A volume's, server's or client's name: 1..FP_NAME_MAX bytes, printable
 * ASCII without space, '/', '"' and '\\'.
 */
bool fp_name_ok (const char *name);

/* An address as messages carry it: visible ASCII, and not empty. */
bool fp_addr_text_ok (const char *addr);

/* ---- frames of the tcp data transport, fixed size ---- */

#define FP_DATA_REQ_SIZE 32
#define FP_DATA_REPLY_SIZE 16
#define FP_DATA_READ 1
#define FP_DATA_WRITE 2
#define FP_DATA_MAX (1u << 20) /* bytes in one frame */

struct fp_data_req { /* WRITE: length bytes follow */
  uint8_t op;
  uint32_t cookie;
  uint32_t length;
  uint64_t rkey;
  uint64_t raddr;
};

struct fp_data_reply { /* READ and status OK: length bytes follow */
  uint32_t cookie;
  uint32_t status;
  uint32_t length;
};

void fp_data_req_encode (uint8_t out[FP_DATA_REQ_SIZE],
                         const struct fp_data_req *q);
int fp_data_req_decode (struct fp_data_req *q,
                        const uint8_t in[FP_DATA_REQ_SIZE]);
void fp_data_reply_encode (uint8_t out[FP_DATA_REPLY_SIZE],
                           const struct fp_data_reply *p);
int fp_data_reply_decode (struct fp_data_reply *p,
                          const uint8_t in[FP_DATA_REPLY_SIZE]);

/* What an rdma_connect carries (RDMA_CM private data is 56 bytes at most,
 * rdma_connect(3)): magic, version, session, token, lane.
 */
#define FP_CM_PRIVATE_SIZE 40
void fp_cm_private_encode (uint8_t out[FP_CM_PRIVATE_SIZE],
                           const struct fp_data_hello *h);
int fp_cm_private_decode (struct fp_data_hello *h, const uint8_t *in,
                          size_t length);

#endif /* FP_MESSAGES_H */
