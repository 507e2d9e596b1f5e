# install and uninstall, and packages made of what install makes.

man_pages  := $(wildcard packaging/man/*)
conf_files := $(filter-out %.md,$(wildcard conf/*))
units      := $(wildcard packaging/systemd/*)
helpers    := varde-agent varde-prolog varde-epilog varde-controller
folders     = $(bindir) $(libdir) $(plugindir) $(libexecdir)/examples $(includedir) $(mandir)/man1 $(mandir)/man5 \
  $(sharedir)/conf $(sharedir)/examples $(unitdir)/slurmd.service.wants

# Files that name other files of ours are written for the default prefix.
placed = sed -e 's|/usr/local/libexec/varde|$(libexecdir)|g' -e 's|/usr/local/lib/varde|$(plugindir)|g' \
  -e 's|/usr/local/lib/libvarde|$(libdir)/libvarde|g' -e 's|/usr/local/share/varde|$(sharedir)|g'

.PHONY: install uninstall deb rpm
install: $(programs) $(shared) $(examples)
	install -d $(addprefix $(DESTDIR),$(folders))
	install -m 755 $(O)/bin/varde $(DESTDIR)$(bindir)/
	install -m 755 $(addprefix $(O)/bin/,$(helpers)) $(DESTDIR)$(libexecdir)/
	install -m 755 $(O)/libvarde.so $(DESTDIR)$(libdir)/libvarde.so.$(version)
	ln -sf libvarde.so.$(version) $(DESTDIR)$(libdir)/libvarde.so.0
	ln -sf libvarde.so.0 $(DESTDIR)$(libdir)/libvarde.so
	install -m 755 $(O)/spank_varde.so $(DESTDIR)$(plugindir)/
	install -m 644 lib/include/varde.h $(DESTDIR)$(includedir)/
	install -m 755 $(examples) $(DESTDIR)$(libexecdir)/examples/
	install -m 755 $(wildcard lib/examples/*.sbatch) $(DESTDIR)$(sharedir)/examples/
	ln -sf $(addprefix ../../../libexec/varde/examples/,$(notdir $(examples))) $(DESTDIR)$(sharedir)/examples/
	set -e; place() { $(placed) "$$1" >"$$2/$${1##*/}"; chmod 644 "$$2/$${1##*/}"; }; \
	for file in $(conf_files); do place $$file $(DESTDIR)$(sharedir)/conf; done; \
	for file in $(units); do place $$file $(DESTDIR)$(unitdir); done; \
	for file in $(man_pages); do place $$file $(DESTDIR)$(mandir)/man$${file##*.}; done
	ln -sf $(addprefix ../,$(notdir $(units))) $(DESTDIR)$(unitdir)/slurmd.service.wants/

# Configuration in /etc and runs on storage stay: they are the administrator's and the users'.
uninstall:
	rm -f $(DESTDIR)$(bindir)/varde $(DESTDIR)$(includedir)/varde.h $(DESTDIR)$(plugindir)/spank_varde.so
	rm -f $(addprefix $(DESTDIR)$(libdir)/,libvarde.so libvarde.so.0 libvarde.so.$(version))
	rm -f $(foreach page,$(notdir $(man_pages)),$(DESTDIR)$(mandir)/man$(lastword $(subst ., ,$(page)))/$(page))
	rm -f $(foreach unit,$(notdir $(units)),$(addprefix $(DESTDIR)$(unitdir)/,$(unit) slurmd.service.wants/$(unit)))
	rm -rf $(DESTDIR)$(libexecdir) $(DESTDIR)$(sharedir)
	-rmdir $(DESTDIR)$(plugindir) $(DESTDIR)$(unitdir)/slurmd.service.wants 2>/dev/null || true

# Debian's places, in a folder; then the package of them.
deb: all
	@packaging/deb $(O)
rpm: all
	@packaging/rpm $(O)
