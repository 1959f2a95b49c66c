/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A process makes the system calls of the verbs itself, and some arguments are wrong: a number, a
 * handle, a length, an address. It harms nobody.
 *
 * XIW_SEED chooses the calls, XIW_CALLS says how many there are.
 */
#include "cases.hpp"
#include "handles.hpp"

#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/xiw-abi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <format>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

using namespace rdma;
using namespace calls;

namespace
{

/* How often each call was made with good arguments or wrong ones, and how often it succeeded. */
class Tally
{
public:
	void count(const std::string &name, bool succeeded)
	{
		std::lock_guard guard(lock_);
		auto &[calls, successes] = all_[name];

		calls++;
		successes += succeeded;
	}

	/* A call that never succeeds would prove little. */
	void expect_each_succeeded() const
	{
		for (const auto &[name, counts] : all_) {
			std::cout << std::format("{}: {} calls, {} succeeded\n", name, counts.first,
						 counts.second);
			require(counts.second > 0, std::format("{} succeeds at times", name));
		}
	}

private:
	std::mutex lock_;
	std::map<std::string, std::pair<unsigned int, unsigned int>> all_;
};

/* One open device file. */
class File
{
public:
	File(const std::string &path, std::uint64_t reply)
		: fd_(open(path.c_str(), O_RDWR | O_CLOEXEC))
	{
		struct {
			ib_uverbs_cmd_hdr header;
			ib_uverbs_get_context request;
		} command = {};

		require(fd_ >= 0, "the device file can be opened");
		command.header.command = IB_USER_VERBS_CMD_GET_CONTEXT;
		command.header.in_words = sizeof(command) / 4;
		command.header.out_words =
			(sizeof(ib_uverbs_get_context_resp) + sizeof(xiw_alloc_ucontext_resp)) / 4;
		command.request.response = reply;
		require(write(fd_, &command, sizeof(command)) == sizeof(command),
			"the device gives a context");
		std::memcpy(&events_, reinterpret_cast<void *>(reply), sizeof(events_));
	}
	File(const File &) = delete;
	~File()
	{
		close(fd_);
		close(events_);
	}

	int fd() const { return fd_; }

private:
	int fd_, events_;
};

/* One thread that calls. */
class Caller
{
public:
	Caller(int fd, Objects &objects, Tally &tally, std::uint32_t seed)
		: fd_(fd), objects_(objects), tally_(tally), random_(seed)
	{
		require(!pipe(ends_), "a pipe");
	}
	Caller(const Caller &) = delete;
	~Caller()
	{
		close(ends_[0]);
		close(ends_[1]);
		for (auto [start, length] : mappings_)
			munmap(start, length);
	}

	void call()
	{
		wrong_ = !below(random_, 2);
		switch (below(random_, 8)) {
		case 0:
			map();
			break;
		case 1:
			scribble();
			break;
		case 2:
		case 3:
			call_method(one_of(random_, methods));
			break;
		default:
			call_command(one_of(random_, commands));
		}
	}

private:
	/* Whether the next argument shall be wrong. */
	bool err() { return wrong_ && !below(random_, 6); }

	std::uint64_t value_of(const Field &field)
	{
		if (err())
			return below(random_, 3) ? wild(random_)
						 : objects_.any(one_of(random_, kinds), random_);
		switch (field.what) {
		case Field::What::up_to:
			return 1 + below(random_, field.value);
		case Field::What::handle:
			return newest_ ? objects_.newest(field.kind, random_)
				       : objects_.any(field.kind, random_);
		case Field::What::page:
			return area_.page(random_);
		case Field::What::reply:
			return reply_ = area_.page(random_);
		default:
			return field.value;
		}
	}

	std::vector<std::uint32_t> words_of(const std::vector<Field> &fields)
	{
		std::vector<std::uint32_t> words;

		for (const Field &field : fields) {
			std::uint64_t value = value_of(field);

			words.push_back(static_cast<std::uint32_t>(value));
			if (field.wide)
				words.push_back(static_cast<std::uint32_t>(value >> 32));
			if (field.what == Field::What::handle)
				object_ = static_cast<std::uint32_t>(value);
		}
		return words;
	}

	/* Begins a call, unless there would be too many or too few objects of its kind. */
	bool begin(Kind creates, Kind destroys)
	{
		if (creates != Kind::none && objects_.are_many(creates))
			return false;
		if (destroys != Kind::none && !objects_.are_many(destroys) && below(random_, 4))
			return false;
		newest_ = destroys != Kind::none && below(random_, 2);
		reply_ = area_.page(random_);
		return true;
	}

	/* What the kernel wrote. After a wrong call it may be something else. */
	template <typename T>
	T replied(std::uint64_t offset)
	{
		T value = {};

		std::memcpy(&value, reinterpret_cast<void *>(reply_ + offset), sizeof(value));
		return value;
	}

	void account(bool succeeded, const char *name, Kind creates, Kind destroys,
		     std::uint32_t created)
	{
		tally_.count(name, succeeded);
		if (!succeeded)
			return;
		if (creates != Kind::none && !wrong_)
			objects_.add(creates, created);
		if (destroys != Kind::none)
			objects_.remove(destroys, object_);
	}

	void call_command(const Command &command)
	{
		if (!begin(command.creates, command.destroys))
			return;
		if (below(random_, 4))
			write_command(command);
		else
			invoke_command(command);
	}

	void write_command(const Command &command)
	{
		const std::uint16_t room = 256;
		auto request = words_of(command.fields);
		std::vector<std::uint32_t> words(2);
		ib_uverbs_cmd_hdr header = { command.number, 0, room };

		if (command.number & IB_USER_VERBS_CMD_FLAG_EXTENDED) {
			ib_uverbs_ex_cmd_hdr more = { reply_, 0, room / 4, 0 };

			header.in_words = static_cast<std::uint16_t>(request.size() / 2);
			header.out_words = static_cast<std::uint16_t>(
				command.driver_reply ? command.driver_reply / 8 : room / 4);
			spoil(more.provider_in_words);
			spoil(more.provider_out_words);
			spoil(more.response);
			words.resize(2 + sizeof(more) / 4);
			std::memcpy(&words[2], &more, sizeof(more));
		} else {
			header.in_words = static_cast<std::uint16_t>(2 + request.size());
		}
		spoil(header.command);
		spoil(header.in_words);
		spoil(header.out_words);
		std::memcpy(words.data(), &header, sizeof(header));
		words.insert(words.end(), request.begin(), request.end());
		if (err())
			words.resize(below(random_, 64));

		auto size = static_cast<ssize_t>(words.size() * 4);
		bool good = write(fd_, words.data(), words.size() * 4) == size;

		finish(command, good && header.command == command.number);
	}

	void finish(const Command &command, bool good)
	{
		account(good, command.name, command.creates, command.destroys,
			replied<std::uint32_t>(0));
		if (good && !wrong_ && command.driver_reply)
			objects_.add_place(replied<std::uint64_t>(command.driver_reply));
	}

	/* The same commands can be given by ioctl(). */
	void invoke_command(const Command &command)
	{
		auto request = words_of(command.fields);
		std::uint16_t core = command.driver_reply
					     ? static_cast<std::uint16_t>(command.driver_reply)
					     : 64;
		std::vector<ib_uverbs_attr> attributes = {
			pointer(UVERBS_ATTR_CORE_IN, request.data(), request.size() * 4),
			reply_at(UVERBS_ATTR_CORE_OUT, 0, core),
			reply_at(UVERBS_ATTR_UHW_OUT, core, 64),
			inlined(UVERBS_ATTR_WRITE_CMD, command.number, 8),
		};

		finish(command,
		       control(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, attributes));
	}

	void call_method(const Method &method)
	{
		std::vector<std::vector<std::uint32_t>> requests;
		std::vector<ib_uverbs_attr> attributes;
		std::uint16_t used = 64, place = 0;

		if (!begin(method.creates, method.destroys))
			return;
		requests.reserve(method.attributes.size());
		for (const Attribute &attribute : method.attributes) {
			auto &words = requests.emplace_back(words_of(attribute.fields));
			std::size_t size = words.size() * 4;

			switch (attribute.how) {
			case Attribute::How::created:
				attributes.push_back(inlined(attribute.id, 0, 0));
				break;
			case Attribute::How::object:
				attributes.push_back(inlined(attribute.id, words.at(0), 0));
				break;
			case Attribute::How::in:
				words.resize(std::max<std::size_t>(words.size(), 2));
				attributes.push_back(pointer(attribute.id, words.data(), size));
				break;
			case Attribute::How::out:
				attributes.push_back(
					reply_at(attribute.id, used, attribute.length));
				if (attribute.id >= UVERBS_ATTR_UHW_IN)
					place = used;
				used = static_cast<std::uint16_t>(used + 64);
			}
		}

		bool good = control(method.object, method.number, attributes);
		auto handle =
			attributes.empty() ? 0 : static_cast<std::uint32_t>(attributes[0].data);

		account(good, method.name, method.creates, method.destroys, handle);
		if (good && !wrong_ && place)
			objects_.add_place(replied<std::uint64_t>(place));
	}

	ib_uverbs_attr inlined(std::uint16_t id, std::uint64_t value, std::size_t size)
	{
		ib_uverbs_attr attribute = {};

		attribute.attr_id = id;
		attribute.len = static_cast<std::uint16_t>(size);
		attribute.flags = UVERBS_ATTR_F_MANDATORY;
		attribute.data = value;
		return attribute;
	}

	/* Octets that fit are in the attribute itself. */
	ib_uverbs_attr pointer(std::uint16_t id, const std::uint32_t *words, std::size_t size)
	{
		std::uint64_t value = reinterpret_cast<std::uintptr_t>(words);

		if (size <= 8) {
			value = 0;
			std::memcpy(&value, words, size);
		}
		return inlined(id, value, size);
	}

	ib_uverbs_attr reply_at(std::uint16_t id, std::uint16_t offset, std::uint16_t size)
	{
		return inlined(id, reply_ + offset, size);
	}

	/* Calls ioctl(). The attributes come back with what the kernel wrote into them. */
	bool control(std::uint16_t object, std::uint16_t method,
		     std::vector<ib_uverbs_attr> &attributes)
	{
		for (ib_uverbs_attr &attribute : attributes) {
			spoil(attribute.attr_id);
			spoil(attribute.len);
			spoil(attribute.flags);
			spoil(attribute.data);
		}
		if (err())
			attributes.erase(attributes.begin() + below(random_, attributes.size()));

		std::size_t size =
			sizeof(ib_uverbs_ioctl_hdr) + attributes.size() * sizeof(attributes[0]);
		ib_uverbs_ioctl_hdr header = {};
		std::vector<std::uint64_t> octets(size / 8);

		header.length = static_cast<std::uint16_t>(size);
		header.object_id = object;
		header.method_id = method;
		header.num_attrs = static_cast<std::uint16_t>(attributes.size());
		header.driver_id = XIW_DRIVER_ID;
		spoil(header.object_id);
		spoil(header.method_id);
		spoil(header.driver_id);
		std::memcpy(octets.data(), &header, sizeof(header));
		std::memcpy(&octets[sizeof(header) / 8], attributes.data(), size - sizeof(header));

		bool good = !ioctl(fd_, RDMA_VERBS_IOCTL, octets.data());

		std::memcpy(attributes.data(), &octets[sizeof(header) / 8], size - sizeof(header));
		return good && header.object_id == object && header.method_id == method;
	}

	template <typename T>
	void spoil(T &value)
	{
		if (wrong_ && !below(random_, 40))
			value = static_cast<T>(below(random_, 2)
						       ? wild(random_)
						       : value ^ 1ull << below(random_, 64));
	}

	/* Maps a ring, or something that is none, and forgets an older mapping. */
	void map()
	{
		std::uint64_t offset = objects_.any_place(random_);
		std::size_t length = (1 + below(random_, 4)) * 4096;
		int rights = below(random_, 4) ? PROT_READ | PROT_WRITE : PROT_READ | PROT_EXEC;

		if (err())
			offset = wild(random_) & ~0xfffull;
		if (err())
			offset += 4096 * (below(random_, 5) - 2ull);
		if (err())
			length = 1 + wild(random_) % (1 << 24);

		void *start =
			mmap(nullptr, length, rights, below(random_, 8) ? MAP_SHARED : MAP_PRIVATE,
			     fd_, static_cast<off_t>(offset));

		if (start != MAP_FAILED)
			mappings_.emplace_back(start, length);
		tally_.count("mmap", start != MAP_FAILED);
		if (mappings_.size() > 16) {
			auto [old, size] = mappings_.front();

			munmap(old, size);
			mappings_.erase(mappings_.begin());
		}
	}

	/* Random octets for a ring. Its object may be gone, and then read() fails without a signal. */
	void scribble()
	{
		if (mappings_.empty())
			return;

		auto [start, length] = one_of(random_, mappings_);
		std::size_t place = below(random_, length) & ~3ull;
		std::uint32_t word = static_cast<std::uint32_t>(wild(random_));

		require(write(ends_[1], &word, 4) == 4, "a word for the ring");

		bool good = read(ends_[0], static_cast<char *>(start) + place, 4) == 4;

		tally_.count("a write to a ring", good);
		if (!good)
			require(read(ends_[0], &word, 4) == 4, "the pipe is empty again");
	}

	static constexpr Kind kinds[] = { Kind::pd, Kind::cq, Kind::qp, Kind::srq,
					  Kind::mr, Kind::mw, Kind::dm, Kind::channel };

	int fd_;
	Objects &objects_;
	Tally &tally_;
	Random random_;
	Area area_;
	std::vector<std::pair<void *, std::size_t>> mappings_;
	std::uint64_t reply_ = 0;
	std::uint32_t object_ = 0; /* the last handle that was named */
	bool wrong_ = false, newest_ = false;
	int ends_[2];
};

constexpr unsigned int calls_per_file = 2000;

/* Calls with a new device file and returns when it is closed. */
void use_file(const std::string &path, unsigned int threads, Tally &tally, Random &random)
{
	Area area;
	File file(path, area.page(random));
	Objects objects;
	std::vector<std::jthread> running;

	for (unsigned int i = 0; i < threads; i++)
		running.emplace_back([&, seed = static_cast<std::uint32_t>(random())] {
			Caller caller(file.fd(), objects, tally, seed);

			for (unsigned int call = 0; call < calls_per_file / threads; call++)
				caller.call();
		});
}

/* A wrong call may create a file that nobody knows of. */
void close_all_from(int fd)
{
	require(!close_range(static_cast<unsigned int>(fd), ~0u, 0), "files can be closed");
}

template <unsigned int threads>
void call_wrongly(const std::string &address)
{
	const auto seed =
		static_cast<std::uint32_t>(cases::number_from("XIW_SEED", std::random_device{}()));
	const auto calls = cases::number_from("XIW_CALLS", 20000);
	Pair bystander(address);
	const std::string path =
		std::format("/dev/infiniband/{}", bystander.a().qp()->context->device->dev_name);
	const int next_fd = dup(0);
	Random random(seed);
	Tally tally;

	std::cout << std::format("seed {}, {} inputs\n", seed, calls) << std::flush;
	for (std::uint64_t done = 0; done < calls; done += calls_per_file) {
		use_file(path, threads, tally, random);
		close_all_from(next_fd);
		bystander.expect_alive();
	}
	tally.expect_each_succeeded();
}

constexpr cases::Case all[] = {
	{ "system calls with wrong arguments harm nobody", call_wrongly<1> },
	{ "system calls with wrong arguments, two at a time, harm nobody", call_wrongly<2> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
