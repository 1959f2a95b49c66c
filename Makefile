# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Builds and installs the module and the provider, and runs the tests.

KDIR ?= /lib/modules/$(shell uname -r)/build
PREFIX ?= /usr

.PHONY: all module provider install install-module install-provider
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

install-provider: provider
	DESTDIR=$(DESTDIR) cmake --install build/provider

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
