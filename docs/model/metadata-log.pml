/* SPDX-License-Identifier: BSD-3-Clause */
/* metadata-log.pml - a Spin model of docs/PROTOCOL.md, 'Volumes with a name':
 * which copies of an extent a client may believe.  docs/MODEL.md explains it.
 * A set of servers is a bit mask.  An expression continues on the next line
 * only after an operator or inside parentheses.  Otherwise Spin ends the
 * statement at the end of the line.
 */

#ifndef LIMITS      /* with -DLIMITS the command line defines all of these */
#define SERVERS 3   /* 2 to 4 */
#define HOLD 3      /* set of the two servers that have the first copies */
#define FIRST 7     /* set of members of the first view */
#define AT 16       /* 16, or the version of server 0's view, if it starts down */
#define SENT 7      /* set of current members of that view */
#define ATTACHES 3  /* number of clients */
#define TAKEOVERS 0 /* clients that start while the previous one still runs */
#define WRITES 1
#define CUTS 2      /* times that a server does not answer for a while */
#define LOSSES 0    /* times that a server loses all it has */
#define CHANGES 0   /* times that a server joins or leaves */
#endif

/* given(X) is 1 if the command line has -DX, else 0. */
#define ONE_1 0,
#define given(x) given_1(x)
#define given_1(x) given_2(ONE_##x)
#define given_2(x) given_3(x 1, 0, 0)
#define given_3(x, y, ...) y

#define COPIES 2
#define ROUND 16 /* stands for FP_MEMBERSHIP_ROUND; version of the first view */
#define WORK 64  /* in a map, beside the in-sync copies: a client is at work */
#define LAST (SERVERS - 1)
#define he (1 - me)
#define BIT(s) (1 << (s))
#define has(set, s) (((set) >> (s)) & 1)
#define cnt(set) (has(set, 0) + has(set, 1) + has(set, 2) + has(set, 3))
/* fp_membership_may_shrink and fp_membership_quorum, for two copies */
#define enough(was, is) ((is) > 0 && (2 * (is) >= (was) || (is) + COPIES > (was)))
#define quorum(nr) ((nr) / 2 + 1)
#define can(s) (up[s] && (key[s] == my[me] || (given(BREAK_KEYS) && key[s] != 0)))
#define ready(s) (can(s) && data[s] != 0)
#define may_open(s) (up[s] && key[s] <= my[me] && !(on[he] && key[s] == my[he]))
#define holds(p) (key[0] == my[p] || key[1] == my[p] || \
                  key[LAST - 1] == my[p] || key[LAST] == my[p])
#define same(s, t) (ver[s] == ver[t] && cur[s] == cur[t] && mem[s] == mem[t])
#define differs(s, t) (!same(s, t) && !(given(BREAK_TIE) && ver[s] == ver[t]))
/* The view of server s counts: it is the base (the view of server b), or
 * another view that is not older.
 */
#define counts(s) (same(s, b) || (differs(s, b) && ver[s] >= ver[b]))
#define settled (mn == 0 && ln == 0)
#define is_last (my[me] == ATTACHES && TAKEOVERS == 0) /* this client only reads */
#define busy (att && !is_last)

/* State of each server.
 * up:             it answers
 * key:            the client that has its key; this number is its epoch
 * ver, cur, mem:  its view, that is version, current members and members
 * map:            its map
 * data:           its copy, as the set of writes in it; 0 if it has none
 */
bool up[SERVERS] = true;
byte key[SERVERS], ver[SERVERS], cur[SERVERS], mem[SERVERS], map[SERVERS], data[SERVERS];
/* The set of acknowledged writes; the number of the last client; the process
 * that owns the volume.
 */
byte acked = 1, term, own;
byte takes = TAKEOVERS, writes = WRITES, cuts = CUTS, losses = LOSSES, changes = CHANGES;
/* For each of the two processes, its client's number and its in-sync copies. */
byte my[2], live[2];
bool on[2];
byte m, i, j, x, y, r, q, b, h, n, bv, bh; /* scratch; 0 between steps */
short g, bg;
bool ok, sure;

inline clear() {
  i = 0; j = 0; x = 0; y = 0; r = 0; q = 0; b = 0; h = 0; n = 0; bv = 0; bh = 0; g = 0; bg = 0;
  ok = false; sure = false
}
/* Set m to any server.  The break must lead to the skip: a d_step may follow,
 * and Spin refuses a jump into one.
 */
inline pick() { m = 0; do :: m < LAST -> m++ :: break od; skip }
/* Server m made the change.  The client gets its answer, or m is cut off first. */
inline answered(set) { if :: set = set & ~BIT(m) :: cuts > 0 -> cuts--; up[m] = false fi }
/* Note a view that may come back.  To attach by it, quorum(nr) of the set are
 * enough.
 */
inline tried(set, nr) { tr[quorum(nr)] = tr[quorum(nr)] | BIT(set) }
inline forget_tried() { tr[1] = 0; tr[2] = 0; tr[3] = 0 }
/* Set sure if the set may be the current members of the next view
 * (meta_log_may_write).
 */
inline allowed(set) {
  g = ((set & ~an) == 0 || given(BREAK_MEET) || given(BREAK_ANCHOR)); /* the set adds no member */
  sure = (set != 0 && (given(BREAK_ANCHOR) || (set & an) != 0) &&
          (given(BREAK_HALF) || enough(cnt(du), cnt(set & du))) &&
          (g != 0 || several || quorum(cnt(du)) + quorum(cnt(set)) > cnt(du | (set))));
  for (j : 1 .. (1 << SERVERS) - 1) {
    for (b : 1 .. 3) {
      sure = (sure && (!has(tr[b], j) || ((given(BREAK_ANCHOR) || cnt(j & ~(set)) < b) &&
              (g != 0 || b + quorum(cnt(set)) > cnt(j | (set))))))
    }
  };
  g = 0; j = 0; b = 0
}
/* Once no current member lacks the map (mn) or the view (ln), both count. */
inline settle() {
  if
  :: settled -> /* a fenced client does not get the volume back */
     du = cu; an = cu; several = false; forget_tried(); live[me] = live[me] & want;
     own = (att || (on[he] && my[he] > my[me] && own == he) -> own : me); att = true
  :: else
  fi
}
inline relist(set) { cu = set; mn = mn & set; ln = set; an = an & set; tried(cu, cnt(cu)); v++ }
/* Invariant 4: at most one view is complete.  A view is complete if all its
 * current members have it.
 */
inline views() {
  for (i : 0 .. LAST) {
    h = (ver[i] > 0);
    for (j : 0 .. LAST) { h = (h && (!has(cur[i], j) || same(i, j))) };
    assert(h == 0 || bv == 0 || same(i, b));
    b = (h != 0 -> i : b); bv = (h != 0 -> 1 : bv)
  }
}

proctype client(byte me) {
  /* cu, li, v:  current members, members and version of the next view to send
   * du:         current members of the last complete view
   * an:         servers that have all views since then
   * tr:         those views; if tr[b] has bit j, then b servers of the set j are
   *             enough to attach by one of them
   * several:    the client found several views that count; tr includes them
   */
  byte cu, li, v, du, an, want, mn, ln, wr, got, o, redo;
  int tr[4];
  bool att, several;
start:
  atomic {
    term < ATTACHES && term % 2 == me && (!on[he] || takes > 0) ->
    takes = (on[he] -> takes - 1 : takes); term++; my[me] = term; on[me] = true
  };
opening: /* OPEN: one server per step if there is another client (TAKEOVER) */
  skip;
  atomic {
    do
    :: o < SERVERS ->
       if :: up[o] && ver[o] > 0 && key[o] < my[me] -> key[o] = my[me] :: else fi;
       o++;
       if :: on[he] -> goto opening :: else fi
    :: else -> break
    od;
    o = 0
  };
  atomic { /* LOOKUP, MAP_READ; an older client without any key must end before */
    given(BREAK_KEYS) || !on[he] || my[he] > my[me] || holds(he) ->
    d_step {
      ok = false; clear();
      for (i : 0 .. LAST) { x = x | (can(i) && ver[i] > 0 -> BIT(i) : 0) };
      for (i : 0 .. LAST) { /* DRBD 4: the base is the newest view not lacked here */
        h = 0; q = 1;
        for (j : 0 .. LAST) {
          h = h + (has(x & cur[i], j) && same(i, j));
          q = (has(x & cur[i], j) && differs(i, j) && ver[j] <= ver[i] -> 0 : q)
        };
        g = (given(BREAK_HIGHER) -> 16 * ver[i] + 8 * q + h :
             (q != 0 -> 4096 + 8 * ver[i] + h : 8 * (255 - ver[i]) + h));
        if
        :: has(x, i) && g > bg -> b = i; bg = g; bh = h
        :: else
        fi
      };
      ok = (bg != 0); sure = (bh >= quorum(cnt(cur[b]))); r = cur[b];
      for (i : 0 .. LAST) { /* y: the highest version; n: several views; bv: all members */
        y = (has(x, i) && ver[i] > y -> ver[i] : y);
        if
        :: has(x, i) && counts(i) ->
           n = (same(i, b) -> n : 1);
           bv = (same(i, b) || !sure -> bv | mem[i] : bv);
           r = (sure || given(BREAK_COMMON) -> r : r & cur[i]);
           ok = (ok && (given(BREAK_ATTACH) || cnt(cur[i] & x) >= quorum(cnt(cur[i])) ||
                 (!same(i, b) && (sure || given(BREAK_QUORUM)))))
        :: else
        fi
      };
      for (i : 0 .. LAST) { /* h: servers that may come back with this view */
        if
        :: n != 0 && !sure && !given(BREAK_BASE) && has(x, i) && counts(i) ->
           h = 0;
           for (j : 0 .. LAST) {
             h = (has(cur[i], j) && (!has(x, j) || same(i, j) ||
                  (ver[j] < ver[i] && !given(BREAK_OLDER))) -> h | BIT(j) : h)
           };
           tried(h, cnt(cur[i]))
        :: else
        fi
      };
      ok = (ok && (r & x) != 0 && (given(BREAK_ATTACH) || enough(cnt(r), cnt(r & x))));
      several = (n != 0 && !sure && !given(BREAK_BASE)); du = r; an = r; r = r & x; cu = r;
      v = (y | (ROUND - 1)) + 1;
      allowed(cu); cu = (several && !sure -> x & bv : cu); /* the others rejoin later */
      for (i : 0 .. LAST) {
        allowed(cu); cu = (several && !sure && has(cu & ~r, i) -> cu & ~BIT(i) : cu)
      };
      allowed(cu); ok = (ok && (sure || !several)); h = 0;
      q = (given(BREAK_UNION) -> 255 : 0); /* DRBD 4: unite the maps */
      for (i : 0 .. LAST) {
        q = (has(r, i) -> (given(BREAK_UNION) -> q & map[i] : q | map[i]) : q)
      };
      for (i : 0 .. LAST) { h = h | (has(q & bv, i) && ready(i) -> BIT(i) : 0) }
    };
    assert(!ok || (q & (WORK - 1)) != 0); /* else the extent would read as zeros */
    if
    :: !ok || h == 0 -> clear(); goto off
    :: else -> /* DRBD 3: after an unclean end one copy is believed, once that is recorded */
       live[me] = ((q & WORK) != 0 && !given(BREAK_BELIEVE_ONE) -> h & (0 - h) : q & (WORK - 1));
       want = live[me] | (given(BREAK_AT_WORK) -> 0 : WORK);
       li = bv;
       mn = (is_last -> 0 : cu); ln = mn; tried(cu, cnt(cu)); att = is_last; own = (att -> me : own)
    fi;
    clear()
  };
  do
  :: atomic {
       pick();
       d_step { /* x: servers that answer; r: in-sync copies to keep; y: next view, if ok */
         ok = false; clear();
         for (i : 0 .. LAST) {
           x = x | (can(i) -> BIT(i) : 0);
           r = r | (ready(i) && has(live[me] & want, i) -> BIT(i) : 0);
           q = (has(r, i) -> data[i] : q)
         };
         n = (busy && mn == 0 && has(li & ~cu, m) && may_open(m) && (ver[m] <= v || ln == 0));
         y = (n != 0 -> cu | BIT(m) : ((cu & ~x) == 0 -> cu & ~BIT(m) :
              (!att -> cu & ~ln : (has(cu & ~an, m) -> cu & x & an : cu & x))));
         allowed(y); ok = sure
       };
       if
       :: has(mn & x, m) -> map[m] = want; answered(mn); settle()
       :: given(BREAK_LEFT_OUT) && att && has(mn & ~x, m) -> mn = mn & ~BIT(m); settle()
       :: mn == 0 && has(ln & x, m) -> /* MEMBERS */
          if
          :: v > ver[m] || (v == ver[m] && cu == cur[m] && li == mem[m]) ->
             ver[m] = v; cur[m] = cu; mem[m] = li
          :: else -> clear(); m = 0; goto off
          fi;
          answered(ln);
          ln = (given(BREAK_LIST_ALL) -> 0 : ln); /* DRBD 1: a view that not all members got */
          settle();
          d_step { b = 0; bv = 0; views(); h = 0 }
       :: n != 0 && ok -> /* m becomes current: MAP_WRITE before the view */
          key[m] = my[me]; map[m] = (given(BREAK_MAP_FIRST) -> map[m] : want);
          v = (ver[m] > v -> ver[m] : v); relist(y)
       :: n == 0 && y != cu && (cu & ~x) != 0 && ok &&
          (busy || (!att && mn == 0 && (ln & x) == 0)) -> relist(y)
       :: busy && changes > 0 && settled && n == 0 && (cu & ~x) == 0 && ok &&
          has(li & ~(live[me] | want), m) -> /* m leaves */
          changes--; li = li & ~BIT(m); relist(y)
       :: busy && changes > 0 && settled && !has(li, m) && data[m] == 0 && may_open(m) ->
          changes--; li = li | BIT(m); key[m] = my[me]; relist(cu) /* m joins */
       :: busy && has(du, m) && up[m] && ver[m] == 0 && (du & ~BIT(m)) != 0 -> /* m came back empty */
          du = du & ~BIT(m); an = ((an & ~BIT(m)) != 0 -> an & ~BIT(m) : du)
       :: busy && mn == 0 && r != 0 && has(live[me] & want & ~r, m) -> /* copy m is dropped */
          want = want & ~BIT(m);
          if /* DRBD 2: the copy was rebuilt meanwhile, so nothing is recorded */
          :: given(BREAK_BUMP) && has(redo, m) -> live[me] = live[me] & want
          :: else -> mn = cu
          fi
       :: busy && settled && wr == 0 && r != 0 && cnt(live[me]) < COPIES &&
          has(du & x & ~(live[me] | want), m) -> /* copy m is rebuilt */
          data[m] = q; live[me] = live[me] | BIT(m); want = want | BIT(m); mn = cu;
          redo = redo | (given(BREAK_BUMP) -> BIT(m) : 0)
       :: wr != 0 && has(live[me] & x & ~got, m) && data[m] != 0 -> /* WRITE */
          data[m] = data[m] | wr;
          if :: got = got | BIT(m) :: cuts > 0 -> cuts--; up[m] = false fi
       :: else
       fi;
       clear(); m = 0
     }
  :: atomic { busy && wr == 0 && writes > 0 -> writes--; wr = BIT(WRITES - writes) }
  :: atomic { /* the write is acknowledged; invariant 2 */
       wr != 0 && ((given(BREAK_RECORD_FIRST) -> live[me] & want : live[me]) & ~got) == 0 ->
       acked = acked | wr; wr = 0; got = 0;
       d_step {
         for (i : 0 .. LAST) {
           assert(own == me || !has(live[own], i) || data[i] == 0 || (acked & ~data[i]) == 0)
         };
         i = 0
       }
     }
  :: d_step { /* reads; invariants 1 and 3 */
       att && (own == me || given(CHECK_OLD_READER)) -> b = 0;
       for (i : 0 .. LAST) {
         if
         :: has(live[me], i) && ready(i) ->
            assert((acked & ~data[i]) == 0);
            assert(wr != 0 || own != me || b == 0 || b == data[i]);
            b = data[i]
         :: else
         fi
       };
       i = 0; b = 0
     }
  :: atomic { /* the client detaches in order, and clears the WORK bit of the maps */
       busy && settled && wr == 0 && term < ATTACHES ->
       d_step {
         for (i : 0 .. LAST) { map[i] = (has(cu, i) && can(i) -> map[i] & ~WORK : map[i]) };
         i = 0
       };
       goto off
     }
  :: atomic { term < ATTACHES || !holds(me) -> goto off } /* dies, or learns that it is fenced */
  od;
off:
  atomic {
    on[me] = false; my[me] = 0; live[me] = 0; cu = 0; li = 0; v = 0; du = 0; an = 0; want = 0;
    mn = 0; ln = 0; wr = 0; got = 0; o = 0; redo = 0; forget_tried(); att = false; several = false;
    d_step { for (i : 0 .. LAST) { key[i] = (on[he] -> key[i] : 0) }; i = 0 };
    goto start
  }
}

init {
  atomic {
    for (i : 0 .. LAST) {
      ver[i] = (has(FIRST, i) -> ROUND : 0); cur[i] = (has(FIRST, i) -> FIRST : 0); mem[i] = cur[i];
      map[i] = (has(FIRST, i) -> HOLD : 0); data[i] = has(HOLD, i)
    };
    i = 0; ver[0] = AT; cur[0] = (AT == ROUND -> FIRST : SENT); up[0] = (AT == ROUND);
    if /* server 0 was left out; only server 1 has the view that takes it in again */
    :: given(AGAIN) -> ver[1] = ROUND + 2; ver[2] = ROUND + 1; cur[2] = FIRST & ~1
    :: given(ALONE) -> /* server 2 was left out, then server 1 */
       ver[0] = ROUND + 2; cur[0] = 1; ver[1] = ROUND + 1; cur[1] = 3
    :: else
    fi;
    run client(0); run client(1)
  };
  do
  :: atomic { /* faults */
       pick();
       if
       :: up[m] && cuts > 0 -> cuts--; up[m] = false
       :: !up[m] -> up[m] = true
       :: losses > 0 ->
          losses--; key[m] = 0; ver[m] = 0; cur[m] = 0; mem[m] = 0; map[m] = 0; data[m] = 0
       :: else
       fi;
       m = 0
     }
  od
}
