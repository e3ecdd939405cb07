# SPDX-License-Identifier: BSD-3-Clause
# Included first by every Makefile.am.

NULL =
CLEANFILES = *~
AM_CFLAGS = $(WARNINGS_CFLAGS)

# Include a header as "FOLDER/NAME.h" if FOLDER is in lib/. In memserver/ and
# tools/, use the whole path. tests/meta/test-arrows.sh says which folder may
# include which.
AM_CPPFLAGS = -I$(top_srcdir)/lib -I$(top_srcdir) -DSYSCONFDIR='"$(sysconfdir)"'

# The plugin is a shared object, so each library that it links is
# position-independent. libtool is not used: for a test program it took longer
# than the compiler and the linker.
PIC_CFLAGS = -fPIC
# No object of the plugin itself refers to libplugin.a, so name a symbol of it.
PLUGIN_INIT = -Wl,--undefined=plugin_init

# The libraries of lib/, with the other libraries that each needs. A variable
# lists a library before those that it uses, as static linking requires.
LIBBASE = $(top_builddir)/lib/base/libbase.a
LIBPROM = $(top_builddir)/lib/libprom.a
LIBMETRICS = $(top_builddir)/lib/libmetrics.a $(LIBPROM) $(LIBEVENT_LIBS)
LIBCONF = $(top_builddir)/lib/libconf.a $(INIH_LIBS)
LIBPROTO = $(top_builddir)/lib/proto/libproto.a $(LIBBASE)
LIBTRANSPORT = $(top_builddir)/lib/transport/libtransport.a $(LIBPROTO) \
	$(GNUTLS_LIBS) $(RDMA_LIBS)
LIBVOLUME = $(top_builddir)/lib/libvolume.a $(LIBCONF) $(LIBTRANSPORT) \
	$(JSON_C_LIBS) $(ISAL_LIBS) -lresolv
LIBFRONT = $(top_builddir)/lib/libfront.a $(LIBPROM) $(LIBVOLUME)

# Man pages: name them in man_MANS and CLEANFILES, and the .pod in EXTRA_DIST. A
# page that does not parse is an error.
POD2MAN_V = $(POD2MAN_V_$(V))
POD2MAN_V_ = $(POD2MAN_V_$(AM_DEFAULT_VERBOSITY))
POD2MAN_V_0 = @echo "  POD2MAN " $@;
SUFFIXES = .pod .1 .5 .7 .8
define POD2MAN_RULE
$(POD2MAN_V)rm -f $@ $@.tmp && \
$(POD2MAN) --utf8 --errors=die --section=$(subst .,,$(suffix $@)) \
    --name=$(notdir $(basename $@)) --center=farpage \
    --release="farpage $(VERSION)" $< $@.tmp && \
chmod 0444 $@.tmp && mv $@.tmp $@
endef
%.1: %.pod
	$(POD2MAN_RULE)
%.5: %.pod
	$(POD2MAN_RULE)
%.7: %.pod
	$(POD2MAN_RULE)
%.8: %.pod
	$(POD2MAN_RULE)

# Make a systemd unit from its .in. configure cannot do that, because it does
# not expand directories such as libexecdir in full.
define UNIT_RULE
$(AM_V_GEN)$(SED) -e 's|[@]bindir[@]|$(bindir)|g' \
    -e 's|[@]libexecdir[@]|$(libexecdir)|g' \
    -e 's|[@]sysconfdir[@]|$(sysconfdir)|g' $< >$@.tmp && mv $@.tmp $@
endef
