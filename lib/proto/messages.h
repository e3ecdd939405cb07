/* SPDX-License-Identifier: BSD-3-Clause */
/* messages.h - the control messages: content, encoder, decoder and limits.
 *
 * On the wire a message is a header of FP_HEADER_SIZE bytes and a body of
 * header.length bytes.  Every field is big-endian and of fixed width.  A
 * string is a u16 length and that many bytes without a NUL.  A session is one
 * stream socket (TCP or Unix).  The client asks; the server answers each
 * request once and in order, with type | FP_MSG_REPLY and the same sequence.
 * docs/PROTOCOL.md has the layout byte by byte.
 *
 * A reply whose header.status is not FP_STATUS_OK has a body that is one
 * string: the reason, for a person to read.
 *
 * Grants of a `shm` session carry file descriptors (SCM_RIGHTS) with the first
 * byte of the reply.  There is one memfd for each grant that is not lost, in
 * the order of the grants.
 *
 * Errors:   decoders return 0 or -EPROTO.  They accept nothing before the
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
#define FP_JOIN_KEY_MIN 16 /* bytes of a user's key */
#define FP_JOIN_KEY_MAX 64
#define FP_MAX_GRANTS 64 /* grants, labels or slabs in one message */
#define FP_MAX_SESSIONS_LISTED 48
#define FP_MAX_RDMA_ADDRS 4
#define FP_MAX_MEMBERS 64
#define FP_MAP_WORDS 1024 /* words of 64 extents, in one message */
#define FP_MAX_VOLUMES_LISTED 48
/* Least number of former clients of a volume that a server remembers
 * (docs/PROTOCOL.md, OPEN, PERM).
 */
#define FP_FORMER_MIN 64u
#define FP_WIRE_COPIES_MAX 16 /* copies of an extent; a copy is 0..15 */

/* The map of a volume has a bit for each copy of each extent, those of copy 0
 * first.  If there are several copies, more bits follow: one is set while a
 * client is at work.  Then, from the next word on, there is a lost bit for
 * each extent.  These are left out if the map would need another page for
 * them.  Then the file of a map that a server of 0.1 kept has the right size.
 */
#define FP_MAP_PAGE UINT64_C (32768) /* bits */

/* Return the number of bits before the lost bits. */
static inline uint64_t
fp_map_bits_of_copies (uint64_t extents, uint32_t copies)
{
  return extents * copies + (copies > 1);
}

/* Return the place of the first lost bit, or 0 if there are none. */
static inline uint64_t
fp_map_lost (uint64_t extents, uint32_t copies)
{
  uint64_t bits = fp_map_bits_of_copies (extents, copies);
  uint64_t first = (bits + 63) / 64 * 64;

  if (copies == 1 ||
      (first + extents - 1) / FP_MAP_PAGE != (bits - 1) / FP_MAP_PAGE)
    return 0;
  return first;
}

/* Return the number of all bits, with those between that are not used. */
static inline uint64_t
fp_map_bits (uint64_t extents, uint32_t copies)
{
  uint64_t first = fp_map_lost (extents, copies);

  return first > 0 ? first + extents : fp_map_bits_of_copies (extents, copies);
}

/* Return which bits of this word are used. */
static inline uint64_t
fp_map_valid (uint64_t extents, uint32_t copies, uint64_t word)
{
  uint64_t bits = fp_map_bits_of_copies (extents, copies);

  if (word >= (bits + 63) / 64)
    bits = fp_map_bits (extents, copies);
  if (word >= (bits + 63) / 64)
    return 0;
  return bits - word * 64 >= 64 ? UINT64_MAX
                                : (UINT64_C (1) << (bits - word * 64)) - 1;
}

#define FP_STRIPE_WIDTH_MAX 64
#define FP_STRIPE_SIZE_MIN 4096
#define FP_STRIPE_ROWS_MAX (1u << 24) /* stripe units in a slab */
#define FP_EXTENT_NONE UINT64_MAX     /* extent of a grant without a label */

enum fp_msg_type {
  FP_MSG_HELLO = 1,       /* introduce client and server to each other */
  FP_MSG_OPEN = 2,        /* attach a volume to this session */
  FP_MSG_LIST = 3,        /* the labelled slabs of this volume, in pages */
  FP_MSG_GRANT = 4,       /* ask for a number of slabs */
  FP_MSG_LABEL = 5,       /* record which extents these slabs hold */
  FP_MSG_RELEASE = 6,     /* give these slabs back */
  FP_MSG_ZERO = 7,        /* zero a range of a slab */
  FP_MSG_PING = 8,        /* heartbeat; renews the lease */
  FP_MSG_BYE = 9,         /* end the session cleanly */
  FP_MSG_STAT = 10,       /* slabs lent, and to which clients */
  FP_MSG_DATA_HELLO = 11, /* first message of a tcp data connection */
  /* For volumes with a name: */
  FP_MSG_LOOKUP = 12,    /* ask for a volume, by name or UUID */
  FP_MSG_MEMBERS = 13,   /* set the list of the volume's servers */
  FP_MSG_MAP = 14,       /* record that these extents exist now, or do not */
  FP_MSG_MAP_READ = 15,  /* ask which extents exist, in pages */
  FP_MSG_MAP_WRITE = 16, /* replace words of the map by newer ones */
  FP_MSG_DELETE = 17,    /* scrub and forget a volume */
  FP_MSG_VOLUMES = 18,   /* list the volumes, in pages */

  FP_MSG_TOKEN = 19, /* ask for the token of the next data connection */

  FP_MSG_JOIN = 20, /* fetch the key of the user that a join token names */

  FP_MSG_DRAIN = 21 /* ask all clients of the server for all its slabs */
};
#define FP_MSG_REPLY 0x8000

/* Status of a reply.  The numbers belong to the protocol, not to any system.
 */
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

/* Return "HELLO", "GRANT reply", ...; never NULL. */
const char *fp_msg_name (unsigned type);

/* Transports, as a set.  The order is also that of preference, best first. */
#define FP_TRANSPORT_RDMA 1u
#define FP_TRANSPORT_SHM 2u
#define FP_TRANSPORT_TCP 4u
#define FP_TRANSPORT_FAKE 8u /* never on the wire */
#define FP_TRANSPORT_WIRE_MASK 7u

const char *fp_transport_name (unsigned transport); /* transport is one bit */
unsigned fp_transport_by_name (const char *name);   /* 0 if unknown */

struct fp_header {
  uint16_t version;
  uint16_t type;
  uint32_t length; /* bytes of the body */
  uint32_t sequence;
  uint32_t status;
};

/* Encode into exactly FP_HEADER_SIZE bytes. */
void fp_header_encode (uint8_t out[FP_HEADER_SIZE], const struct fp_header *h);
/* Return -EPROTO if the magic is wrong, or if the body is longer than
 * FP_BODY_MAX.  Any version is accepted here, because a HELLO of another
 * version is answered.
 */
int fp_header_decode (struct fp_header *h, const uint8_t in[FP_HEADER_SIZE]);

/* The messages, request and reply. */

struct fp_hello {
  uint16_t version_min, version_max;
  uint32_t transports; /* usable by the client; unknown bits are dropped */
  uint64_t features;   /* FP_FEATURE_*; unknown ones are ignored */
  struct fp_uuid client;
  char name[FP_NAME_MAX + 1]; /* "host:pid", for people */
};

struct fp_hello_reply {
  uint16_t version;
  uint32_t transports;   /* transports that the server offers this client */
  uint64_t features;     /* those that both know */
  struct fp_uuid server; /* new each time the server starts empty */
  char name[FP_NAME_MAX + 1];
  uint64_t slab_size; /* bytes */
  uint64_t slabs_total;
  uint64_t slabs_free; /* slabs that can be granted, now or once scrubbed */
  uint32_t lease_ms;
  uint64_t session;
  /* Addresses at which rdma_cm listens.  If the host part is empty or a
   * wildcard, it means the host of the control connection.
   */
  uint32_t nr_rdma;
  char rdma[FP_MAX_RDMA_ADDRS][FP_ADDR_MAX + 1];
};

/* Layout of the bytes of a volume in its extents (lib/extent/stripe.h), fixed
 * when the volume is made.  The servers only keep it, so that a client that
 * attaches the volume finds the bytes where they were put.
 */
struct fp_stripe {
  uint32_t width; /* extents, 1..FP_STRIPE_WIDTH_MAX; 1: no striping */
  uint64_t size;  /* stripe unit in bytes, a power of two */
};

/* Return true if the fields are in range, and size neither exceeds a slab nor
 * is too small for one.
 */
bool fp_stripe_ok (const struct fp_stripe *s, uint64_t slab_size);

#define FP_OPEN_CREATE 1u    /* the volume must not exist yet */
#define FP_OPEN_RESUME 2u    /* the volume must exist, left by its client */
#define FP_OPEN_EPHEMERAL 4u /* deleted when the lease ends or at BYE */
/* Take the volume from its present client first: end that client's session,
 * and with it every key.
 */
#define FP_OPEN_TAKEOVER 8u
/* Set the number of servers.  Only for a client that has had the volume all
 * along.
 */
#define FP_OPEN_RECOUNT 16u
/* Open the volume for reading only.  Without this flag, a client that may only
 * read is refused.
 */
#define FP_OPEN_READ_ONLY 32u
#define FP_OPEN_FLAGS 63u

struct fp_open {
  uint32_t flags;     /* FP_OPEN_*; CREATE and RESUME: either will do */
  uint32_t transport; /* one bit */
  struct fp_uuid volume;
  char name[FP_NAME_MAX + 1]; /* may be empty */
  uint64_t size;              /* bytes */
  uint64_t slab_size;         /* must equal the server's */
  uint32_t copies;
  uint32_t servers; /* number of servers of the whole volume */
  struct fp_stripe stripe;
};

struct fp_open_reply {
  bool resumed;
  uint64_t epoch;  /* raised at each attach that may write */
  uint64_t labels; /* number of labelled slabs that LIST will show */
};

struct fp_grant {
  uint64_t slab;   /* the server's number of the slab */
  uint64_t extent; /* FP_EXTENT_NONE: no label yet */
  uint32_t copy;
  uint64_t generation;
  uint64_t raddr; /* address of byte 0, for the transport */
  uint64_t rkey;
  uint64_t length; /* bytes, with the tail; 0: see fp_grant_is_lost */
};

/* HELLO: the client accepts grants longer than a slab.  At least FP_TAIL_SIZE
 * bytes follow the slab.  They are zeros when the slab is newly lent, and
 * otherwise as the client left them.
 */
#define FP_FEATURE_TAIL 1u
#define FP_TAIL_SIZE 256u

/* Return true if the slab held this extent and the server had to give it up.
 * The data of the extent is lost, and must not read as never written.  Only a
 * reply to LIST has such grants, until RELEASE removes the mark.
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

/* In HELLO: the client may ask for grants ahead of need.  In the reply: the
 * server supports that.
 */
#define FP_FEATURE_AHEAD 2u

struct fp_grant_req {
  uint32_t count; /* 1..FP_MAX_GRANTS; fewer may come, none is NOSPC */
  /* The slabs are needed only later.  If none is ready, the reply is NOSPC at
   * once.  Sent only to a server with FP_FEATURE_AHEAD.
   */
  bool ahead;
};

struct fp_grants { /* reply to LIST and to GRANT */
  uint32_t count;
  struct fp_grant grants[FP_MAX_GRANTS];
};

/* Flag in a label's generation: the label is open.  Another server may have a
 * label of the same extent that counts instead, so that server must be asked
 * first.  Generations themselves are below this value.
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

struct fp_release { /* after the (empty) reply, the keys open nothing */
  uint32_t count;
  uint64_t slabs[FP_MAX_GRANTS];
};

struct fp_zero {
  uint64_t slab;
  uint64_t offset;
  uint64_t length;
};

/* In HELLO: the client knows the lost bits of a map.  In the reply: the
 * server has them.
 */
#define FP_FEATURE_LOST 8u

/* In HELLO: the client says in PING whether it can move what the server asks
 * for.  In the reply: the server knows that, and DRAIN.
 */
#define FP_FEATURE_DRAIN 4u

/* Sent only to a server with FP_FEATURE_DRAIN; else the request is empty. */
struct fp_ping {
  bool stuck; /* the other servers have no room for what is asked for */
};

struct fp_ping_reply {
  uint64_t slabs_total;
  uint64_t slabs_free;
  bool stopping;   /* or is being drained: it lends nothing */
  uint64_t wanted; /* slabs of this session that the server wants back */
};

enum fp_drain_action {
  FP_DRAIN_LOOK = 0,  /* change nothing */
  FP_DRAIN_BEGIN = 1, /* lend nothing, and ask for all slabs */
  FP_DRAIN_CANCEL = 2
};

/* Sent only to a server with FP_FEATURE_DRAIN. */
struct fp_drain_req {
  uint32_t action; /* enum fp_drain_action */
};

/* State after that action. */
struct fp_drain_reply {
  bool drains;
  /* Lent slabs: their client can move them; it has no room for them elsewhere;
   * no client that may write has them.
   */
  uint64_t moving, stuck, kept;
};

struct fp_bye { /* the reply is empty */
  bool discard; /* free and scrub the volume now, not after the lease */
};

struct fp_stat_session {
  char client[FP_NAME_MAX + 1];
  char volume[FP_NAME_MAX + 1]; /* name, or UUID of an unnamed one */
  uint32_t transport;           /* 0: no volume open */
  uint64_t slabs;
  uint64_t since; /* seconds since 1970 */
  bool attached;  /* false: kept for its lease, or for good */
};

struct fp_stat_reply { /* the request is empty */
  char name[FP_NAME_MAX + 1];
  struct fp_uuid server;
  uint64_t slab_size;
  uint64_t total, free, lent, scrubbing, unpopulated; /* slabs */
  uint64_t uptime_s;
  bool stopping;
  bool pressed;         /* host is short of memory: lends nothing now */
  bool insecure;        /* other machines may connect without TLS */
  uint64_t wanted;      /* slabs that the server wants back from all clients */
  uint64_t returned;    /* slabs given back to the host for that */
  uint32_t nr_sessions; /* listed here, at most FP_MAX_SESSIONS_LISTED */
  uint32_t nr_all;      /* all sessions, listed or not */
  struct fp_stat_session sessions[FP_MAX_SESSIONS_LISTED];
};

/* Request for a token, on the control connection.  Each data connection shows
 * a token of its own, once.
 */
struct fp_token_req {
  uint32_t lane;
};

struct fp_token {
  uint8_t token[FP_TOKEN_SIZE];
};

/* Reply to JOIN: the key of the user that the join token names
 * (transport/tls/join_token.h).  The request is empty.
 */
struct fp_join_reply {
  char user[FP_NAME_MAX + 1];
  uint16_t length; /* bytes of the key */
  uint8_t key[FP_JOIN_KEY_MAX];
};

struct fp_data_hello { /* the reply is empty */
  uint64_t session;
  uint8_t token[FP_TOKEN_SIZE]; /* token of this lane */
  uint32_t lane;
};

/* ---- volumes with a name ----
 *
 * A volume with a name outlives its client.  So its servers, and no file of a
 * client, keep two things about it: its servers (members), and which extents
 * exist (the map).  docs/PROTOCOL.md says in which order changes must be made.
 */

struct fp_member {
  struct fp_uuid server;        /* UUID in its reply to HELLO */
  char addr[FP_ADDR_MAX + 1];   /* as the client that wrote this reached it */
  char domain[FP_NAME_MAX + 1]; /* failure domain; may be empty */
  bool current;                 /* has got every change of the map */
};

struct fp_members { /* the reply is empty */
  uint64_t version; /* higher than the server's, unless the same list */
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
  uint64_t slabs;   /* labelled slabs of the volume on this server */
  uint64_t extents; /* extents that exist in this server's map */
  uint32_t members; /* members in this server's list; 0: no list */
  uint64_t created; /* seconds since 1970 */
  bool ephemeral;
  bool attached;                /* to client; if false, client was the last */
  char client[FP_NAME_MAX + 1]; /* "": never attached */
  uint64_t since; /* attach, else detach, in seconds since 1970 */
};

struct fp_lookup_reply { /* or NOENT */
  struct fp_volume_entry volume;
  uint64_t epoch;
  /* Milliseconds in which only the last client can attach the volume here.  0:
   * no such time, or attached now.
   */
  uint32_t fenced_ms;
  struct fp_members members; /* version 0 and none: never written */
};

struct fp_map_change { /* all or none take effect; the reply is empty */
  bool exist;
  uint32_t count;
  uint64_t extents[FP_MAX_GRANTS];
};

struct fp_map_read {
  uint64_t start; /* first extent, a multiple of 64 */
  uint32_t count; /* words, 1..FP_MAP_WORDS */
};

/* Reply to MAP_READ, with as many words as were asked for.  Also MAP_WRITE,
 * whose reply is empty.  Bit n of word w is extent start + 64 * w + n.  Bits
 * beyond the end of the volume are 0.
 */
struct fp_map_words {
  uint64_t start;
  uint32_t count;
  uint64_t words[FP_MAP_WORDS];
};

struct fp_delete { /* the reply is empty; BUSY if attached */
  struct fp_uuid volume;
};

struct fp_volumes_req {
  uint32_t start; /* index of the first volume wanted */
};

struct fp_volumes {
  uint32_t total; /* volumes on the server */
  uint32_t count; /* volumes in this reply */
  struct fp_volume_entry volumes[FP_MAX_VOLUMES_LISTED];
};

/* For each message: enc appends to w (check fp_writer_ok once after); dec
 * reads all of r and checks every count, flag and string.  dec returns 0 or
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
FP_MESSAGE (ping);
FP_MESSAGE (ping_reply);
FP_MESSAGE (bye);
FP_MESSAGE (stat_reply);
FP_MESSAGE (drain_req);
FP_MESSAGE (drain_reply);
FP_MESSAGE (token_req);
FP_MESSAGE (token);
FP_MESSAGE (join_reply);
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

/* Return true if the decoders would accept this; for data from elsewhere. */
bool fp_volume_entry_ok (const struct fp_volume_entry *e);
/* Return true if m has version 0 and no members, or a version and at least one
 * current member.
 */
bool fp_members_ok (const struct fp_members *m);

/* Encode and decode the reason for a status that is not OK. */
void fp_enc_reason (struct fp_writer *w, const char *reason);
int fp_dec_reason (struct fp_reader *r, char out[FP_REASON_MAX + 1]);

/* Return true if name can be that of a volume, server or client:
 * 1..FP_NAME_MAX bytes, printable ASCII without space, '/', '"' and '\\'.
 */
bool fp_name_ok (const char *name);

/* Return true if addr can be an address in a message: visible ASCII, not
 * empty.
 */
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

/* Private data of an rdma_connect: magic, version, session, token, lane.
 * RDMA_CM allows 56 bytes at most (rdma_connect(3)).
 */
#define FP_CM_PRIVATE_SIZE 40
void fp_cm_private_encode (uint8_t out[FP_CM_PRIVATE_SIZE],
                           const struct fp_data_hello *h);
int fp_cm_private_decode (struct fp_data_hello *h, const uint8_t *in,
                          size_t length);

#endif /* FP_MESSAGES_H */
