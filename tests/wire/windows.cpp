/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* STags that belong to one stream: memory windows of type 2. */
#include "stream.hpp"

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

constexpr std::uint32_t size = 64;
constexpr int all_remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/* A stream whose peer can reach the application's memory only through a window. */
struct Owning : Stream {
	Owning(const std::string &address, Role role)
		: Stream(address, role, { .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND })
	{
	}
};

class Window
{
public:
	explicit Window(Stream &stream)
		: window_(ibv_alloc_mw(stream.end().pd(), IBV_MW_TYPE_2)),
		  address_(stream.memory().address())
	{
		require(window_ != nullptr, "there is a window");
		stream.end().bind(window_.get(),
				  { stream.memory().mr(), address_, size, all_remote });
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 0);
	}

	std::uint32_t stag() const { return window_->rkey; }

	/* A Write of the pattern of this seed through the window. */
	Octets write(std::uint32_t seed) const
	{
		return fpdu(
			Tagged{ .stag = stag(), .offset = address_ }.ulpdu(octets_of(seed, size)));
	}

	Octets read() const
	{
		return fpdu(ReadRequest{
			.size = size, .source_stag = stag(), .source_offset = address_ }
				    .ulpdu());
	}

private:
	Mw window_;
	std::uint64_t address_;
};

/* The stream that owns the window can read and write through it. */
void expect_open(Stream &stream, const Window &window, Where where = Where::current())
{
	stream.peer().say(window.write(1) + window.read());
	require(stream.hear(where).payload() == octets_of(1, size), "the data is read back", where);
	require(stream.memory().holds(1, 0, size), "the data is in memory", where);
}

void of_a_domain_or_a_stream(const std::string &address, Role role)
{
	Owning owner(address, role);
	Window window(owner);
	Stream other(address, role, { .qp = { .pd = owner.end().pd() } });

	other.peer().say(window.write(2));
	other.expect_terminate({ 1, 1, 2 });
	require(owner.memory().is_zero(), "nothing is placed");
	expect_open(owner, window);

	/* A region belongs to the protection domain, so all of its streams can use it. */
	Stream another(address, role, { .qp = { .pd = owner.end().pd() } });
	Buffer region(owner.end().pd(), size);

	another.peer().say(
		fpdu(Tagged{ .stag = region.mr()->rkey, .offset = region.address() }.ulpdu(
			octets_of(3, size))));
	another.expect_alive();
	require(region.holds(3, 0, size), "a Write is placed");
}

void no_read_by_others(const std::string &address, Role role)
{
	Owning owner(address, role);
	Window window(owner);
	Stream other(address, role, { .qp = { .pd = owner.end().pd() } });

	other.peer().say(window.read());
	other.expect_terminate({ 0, 1, 3 });
	expect_open(owner, window);
}

Octets send_with_invalidate(std::uint32_t stag, std::uint8_t rdmap = 0x44)
{
	return fpdu(Untagged{ .rdmap = rdmap, .invalidate = stag }.ulpdu({}));
}

/* The window is invalid before the message is delivered. */
void invalidated_by_a_send(const std::string &address, Role role)
{
	for (std::uint8_t rdmap : { 0x44, 0x46 }) {
		Owning owner(address, role);
		Window window(owner);

		expect_open(owner, window);
		owner.memory().fill(5);
		owner.end().receive({ 0, 0, 0 }, 1);
		owner.peer().say(send_with_invalidate(window.stag(), rdmap) + window.write(2));

		ibv_wc wc = expect_completion(owner.end().recv_cq(), IBV_WC_SUCCESS, 1);

		require(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == window.stag(),
			"the completion has the STag");
		owner.expect_terminate({ 1, 1, 0 });
		require(owner.memory().holds(5, 0, size), "nothing is placed after it");
	}
}

void not_invalidated_by_others(const std::string &address, Role role)
{
	Owning owner(address, role);
	Window window(owner);
	Stream other(address, role, { .qp = { .pd = owner.end().pd() } });

	other.end().receive({ 0, 0, 0 }, 1);
	other.peer().say(send_with_invalidate(window.stag()));
	other.expect_terminate({ 0, 1, 9 });
	expect_completion(other.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	expect_open(owner, window);
}

void invalid_already(const std::string &address, Role role)
{
	Owning owner(address, role);
	Window window(owner);
	ibv_send_wr wr = {};

	wr.opcode = IBV_WR_LOCAL_INV;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.invalidate_rkey = window.stag();
	for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++) {
		require(!owner.end().post(wr), "the request is taken");
		expect_completion(owner.end().send_cq(), IBV_WC_SUCCESS, wr.wr_id);
	}
	owner.end().receive({ 0, 0, 0 }, 3);
	owner.peer().say(send_with_invalidate(window.stag()));
	expect_completion(owner.end().recv_cq(), IBV_WC_SUCCESS, 3);
}

const cases::Case all[] = {
	{ "DDP-23 an STag is of a domain, or of one stream",
	  in_both_roles<of_a_domain_or_a_stream> },
	{ "RDP-15 a Send invalidates an STag of its stream", in_both_roles<invalidated_by_a_send> },
	{ "VRB-08 a window that is invalid may be invalidated again",
	  in_both_roles<invalid_already> },
	{ "VRB-13 a Send does not invalidate an STag of another stream",
	  in_both_roles<not_invalidated_by_others> },
	{ "SEC-04 an STag of one stream cannot be read by another",
	  in_both_roles<no_read_by_others> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
