# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Builds and installs the module, the provider and the command "xiw"; makes packages; runs the tests.

KDIR ?= /lib/modules/$(shell uname -r)/build
PREFIX ?= /usr
VERSION := $(shell sed -n 's/^\#define XIW_VERSION "\(.*\)"/\1/p' kernel/version.h)
release = xiw-$(VERSION)

.PHONY: all module provider install install-module install-provider uninstall dist deb
.PHONY: demo check check-debug coverage fuzz mutate soak bench style drawings clean distclean

all: module provider

module:
	@test -e $(KDIR)/Makefile || { echo "make: there are no kernel headers in $(KDIR):" \
		"install linux-headers-$$(uname -r), or name others by KDIR=" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

provider:
	cmake -S . -B build/provider -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	cmake --build build/provider --parallel

install: install-module install-provider

install-module: module
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(DESTDIR) modules_install
ifndef DESTDIR
	depmod $$($(MAKE) -s -C $(KDIR) kernelrelease)
endif

# Also installs the command "xiw", its unit and the manual.
install-provider: provider
	DESTDIR=$(DESTDIR) cmake --install build/provider

# Removes what "make install" has installed from this folder, the module for each kernel. Settings in
# /etc/xiw stay.
uninstall:
	@test -e build/provider/install_manifest.txt || { echo "make: nothing was installed from here" >&2; exit 1; }
	sed 's|^|$(DESTDIR)|' build/provider/install_manifest.txt | xargs -d '\n' rm -f
	for module in $(DESTDIR)/lib/modules/*/updates/kernel/xiw.ko*; do \
		test -e "$$module" || continue; \
		rm "$$module"; \
		release=$${module#$(DESTDIR)/lib/modules/}; \
		test -n "$(DESTDIR)" || depmod "$${release%%/*}"; \
	done

# The sources of the last commit, always the same bytes.
dist:
	@mkdir -p build
	git archive --prefix=$(release)/ -o build/$(release).tar HEAD
	gzip -nf build/$(release).tar

# Debian packages of the last commit, for this machine's release of Debian, in build/deb. They need
# what "apt build-dep ." installs.
deb: dist
	rm -rf build/deb
	mkdir build/deb
	tar -C build/deb -xf build/$(release).tar.gz
	cd build/deb/$(release) && dpkg-buildpackage --build=binary --no-sign
	rm -r build/deb/$(release)

# The targets below need root on Debian 12 or 13. They install the packages that they need.

demo:
	@tools/demo

check:
	@tools/check

check-debug:
	@tests/vm/run-debug

coverage:
	@tools/coverage

fuzz:
	@tools/fuzz --time $(or $(TIME),60)

mutate:
	@tools/mutate --count $(or $(COUNT),100) --seed $(or $(SEED),1)

soak:
	@tools/soak --hours $(or $(HOURS),1)

bench:
	@tools/bench --vehicle $(or $(VEHICLE),qemu) $(if $(CPUS),--cpus $(CPUS))

style:
	@tools/style

drawings:
	@tools/draw

clean:
	rm -rf build
	test ! -e $(KDIR)/Makefile || $(MAKE) -C $(KDIR) M=$(CURDIR) clean

# Removes the cache of what the targets above have downloaded and made, too: /var/cache/xiw, XIW_CACHE.
distclean: clean
	@tools/guest/remove-cache
