# install and uninstall.  One list of files serves both.

installed_programs := $(bindir)/varde
installed_helpers  := $(addprefix $(libexecdir)/,varde-agent varde-prolog varde-epilog varde-controller)
conf_files := $(filter-out %.md,$(wildcard conf/*))

.PHONY: install uninstall
install: $(programs) $(shared) $(examples)
	install -d $(addprefix $(DESTDIR),$(bindir) $(libdir)/varde $(libexecdir) $(includedir) $(mandir)/man1 $(mandir)/man5 \
	  $(exampledir)/conf $(exampledir)/examples)
	install -m 755 $(O)/bin/varde $(DESTDIR)$(bindir)/
	install -m 755 $(addprefix $(O)/bin/,$(notdir $(installed_helpers))) $(DESTDIR)$(libexecdir)/
	install -m 755 $(O)/libvarde.so $(DESTDIR)$(libdir)/libvarde.so.$(version)
	ln -sf libvarde.so.$(version) $(DESTDIR)$(libdir)/libvarde.so.0
	ln -sf libvarde.so.0 $(DESTDIR)$(libdir)/libvarde.so
	install -m 755 $(O)/spank_varde.so $(DESTDIR)$(libdir)/varde/
	install -m 644 lib/include/varde.h $(DESTDIR)$(includedir)/
	install -m 644 $(conf_files) $(DESTDIR)$(exampledir)/conf/
	install -m 755 $(examples) $(DESTDIR)$(exampledir)/examples/
	install -m 644 $(wildcard lib/examples/*.sbatch) $(DESTDIR)$(exampledir)/examples/
	install -m 644 $(wildcard packaging/man/*.1) $(DESTDIR)$(mandir)/man1/
	install -m 644 $(wildcard packaging/man/*.5) $(DESTDIR)$(mandir)/man5/

# Configuration in /etc and runs on storage stay: they are the administrator's and the users'.
uninstall:
	rm -f $(DESTDIR)$(installed_programs) $(addprefix $(DESTDIR),$(installed_helpers))
	rm -f $(addprefix $(DESTDIR)$(libdir)/,libvarde.so libvarde.so.0 libvarde.so.$(version) varde/spank_varde.so)
	rm -f $(DESTDIR)$(includedir)/varde.h
	rm -f $(foreach n,1 5,$(addprefix $(DESTDIR)$(mandir)/man$(n)/,$(notdir $(wildcard packaging/man/*.$(n)))))
	rm -rf $(DESTDIR)$(exampledir)
	-rmdir $(DESTDIR)$(libdir)/varde $(DESTDIR)$(libexecdir) 2>/dev/null || true
