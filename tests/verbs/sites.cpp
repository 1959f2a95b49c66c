/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The places in the module's code that call something which allocates memory. */
#include "sites.hpp"

#include <elf.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <format>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>

namespace injection
{

using rdma::require;

/* All callees of the module that allocate, by the beginnings of their names. A name that is missing
 * here makes no claim fail, so keep the list wide.
 */
static constexpr std::string_view allocators[] = { "__kmalloc",
						   "__kvmalloc",
						   "__vmalloc",
						   "_ib_alloc_device",
						   "__xa_alloc",
						   "__xa_insert",
						   "alloc_",
						   "get_user_pages",
						   "ib_device_set_netdev",
						   "ib_register_device",
						   "ib_umem_get",
						   "kernel_accept",
						   "kernel_bind",
						   "kernel_connect",
						   "kernel_listen",
						   "kmem_cache_alloc",
						   "kmemdup",
						   "kthread_create",
						   "mmu_interval_notifier_insert",
						   "pcpu_alloc",
						   "prepare_kernel_cred",
						   "rdma_alloc_hw_stats",
						   "rdma_user_mmap_entry_insert",
						   "ref_tracker_alloc",
						   "sock_create",
						   "tcp_sendmsg",
						   "vm_insert_page",
						   "vmalloc_",
						   "vmap",
						   "xa_store" };

/* Those of the names above that allocate nothing. */
static constexpr std::string_view others[] = { "vmalloc_to_page" };

static bool allocates(std::string_view name)
{
	return std::ranges::any_of(allocators,
				   [&](std::string_view one) { return name.starts_with(one); }) &&
	       std::ranges::find(others, name) == std::end(others);
}

/* The module's file, an object in ELF's format. */
class Object
{
public:
	explicit Object(const std::filesystem::path &path)
	{
		std::ifstream file(path, std::ios::binary);

		octets_.assign(std::istreambuf_iterator<char>(file), {});
		require(octets_.size() > sizeof(Elf64_Ehdr) &&
				!std::memcmp(octets_.data(), ELFMAG, SELFMAG),
			path.string() + " is an object file");
	}

	std::span<const Elf64_Shdr> sections() const
	{
		const auto *header = at<Elf64_Ehdr>(0);

		return { at<Elf64_Shdr>(header->e_shoff), header->e_shnum };
	}

	std::string_view name(const Elf64_Shdr &section) const
	{
		return text(sections()[at<Elf64_Ehdr>(0)->e_shstrndx], section.sh_name);
	}

	std::span<const Elf64_Rela> relocations(const Elf64_Shdr &section) const
	{
		return { at<Elf64_Rela>(section.sh_offset), section.sh_size / sizeof(Elf64_Rela) };
	}

	/* The name of the symbol to which a relocation of this section refers. */
	std::string_view target(const Elf64_Shdr &section, const Elf64_Rela &relocation) const
	{
		const Elf64_Shdr &symbols = sections()[section.sh_link];
		const auto *all = at<Elf64_Sym>(symbols.sh_offset);

		return text(sections()[symbols.sh_link],
			    all[ELF64_R_SYM(relocation.r_info)].st_name);
	}

private:
	template <class T>
	const T *at(std::size_t offset) const
	{
		return reinterpret_cast<const T *>(octets_.data() + offset);
	}

	std::string_view text(const Elf64_Shdr &strings, std::size_t offset) const
	{
		return at<char>(strings.sh_offset + offset);
	}

	std::vector<char> octets_;
};

static std::filesystem::path module_file()
{
	utsname system;

	require(!uname(&system), "uname");
	for (const char *folder : { "updates", "extra" }) {
		const auto path =
			std::filesystem::path("/lib/modules") / system.release / folder / "xiw.ko";

		if (std::filesystem::exists(path))
			return path;
	}
	rdma::fail("there is no file of the module");
}

static std::uintptr_t address_of(std::string_view section)
{
	std::ifstream file(std::format("/sys/module/xiw/sections/{}", section));
	std::uintptr_t address = 0;

	file >> std::hex >> address;
	require(address, std::format("the kernel says where {} is", section));
	return address;
}

/* Where the code is after a load of the callee's address, or a call of it. User Mode Linux loads the
 * address first, and calls it some instructions later.
 */
static std::uintptr_t after(const Elf64_Rela &relocation)
{
	switch (ELF64_R_TYPE(relocation.r_info)) {
	case R_X86_64_64:
		return relocation.r_offset + sizeof(std::uint64_t);
	case R_X86_64_PLT32:
	case R_X86_64_PC32:
		return relocation.r_offset + sizeof(std::uint32_t);
	default:
		return 0;
	}
}

/* The places of one section. Each reaches up to the next one of the same function. */
static void add_sites(std::vector<Site> &found, const Object &module, const Elf64_Shdr &section,
		      std::uintptr_t start)
{
	const std::size_t first = found.size();

	for (const Elf64_Rela &one : module.relocations(section)) {
		const std::string callee(module.target(section, one));

		if (after(one) && allocates(callee)) {
			const std::uintptr_t at = start + after(one);

			found.push_back({ function_at(at), callee, { at, end_of_function(at) } });
		}
	}
	std::ranges::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end(), {},
			  [](const Site &site) { return site.after.begin; });
	for (std::size_t i = first; i + 1 < found.size(); i++)
		found[i].after.end = std::min(found[i].after.end, found[i + 1].after.begin);
}

std::vector<Site> sites()
{
	const Object module(module_file());
	std::vector<Site> found;

	for (const Elf64_Shdr &section : module.sections())
		if (section.sh_type == SHT_RELA && module.name(section) == ".rela.text")
			add_sites(found, module, section, address_of(".text"));
	require(!found.empty(), "the module allocates memory");
	return found;
}

} /* namespace injection */
