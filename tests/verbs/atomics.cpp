/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Atomic operations: results, effect on memory, order, and rights. */
#include "cases.hpp"
#include "rdma.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <format>
#include <optional>
#include <thread>
#include <vector>

using namespace rdma;

namespace
{

constexpr int atomic_rights = Buffer::all_rights | IBV_ACCESS_REMOTE_ATOMIC;

std::uint64_t &word(Buffer &buffer, std::size_t place = 0)
{
	return reinterpret_cast<std::uint64_t *>(buffer.bytes().data())[place];
}

/* A connection. a posts the atomics and gets the results; the words are in b's memory. */
struct Setting {
	explicit Setting(const std::string &address, int b_access = atomic_rights)
		: pair(address), a(pair.a()), b(pair.b()), results(a.pd(), 4096),
		  words(b.pd(), 4096, b_access)
	{
	}

	/* A request for the word at this offset of b's buffer; its result goes to sge. */
	ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge &sge, std::uint64_t octet = 0)
	{
		ibv_send_wr wr = signaled(opcode, sge, 1);

		wr.wr.atomic.remote_addr = words.address() + octet;
		wr.wr.atomic.rkey = words.mr()->rkey;
		return wr;
	}

	void post(ibv_send_wr &wr, Where where = Where::current())
	{
		if (int err = a.post(wr))
			fail("ibv_post_send", err, where);
	}

	void fetch_add(std::uint64_t add, std::size_t result = 0, unsigned int more_flags = 0)
	{
		ibv_sge sge = results.sge(8 * result, 8);
		ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);

		wr.wr_id = result;
		wr.send_flags |= more_flags;
		wr.wr.atomic.compare_add = add;
		post(wr);
	}

	Pair pair;
	End &a;
	End &b;
	Buffer results;
	Buffer words;
};

void expect_done(Setting &setting, ibv_wc_opcode opcode, Where where = Where::current())
{
	ibv_wc wc = next_completion(setting.a.send_cq(), 10000, where);

	require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status), where);
	require(wc.opcode == opcode && wc.byte_len == 8, "opcode and length are right", where);
}

void fetch_and_add(const std::string &address)
{
	Setting setting(address);

	word(setting.words) = 0x0102030405060708;
	setting.fetch_add(0x10);
	expect_done(setting, IBV_WC_FETCH_ADD);
	require(word(setting.results) == 0x0102030405060708, "the old value is returned");
	require(word(setting.words) == 0x0102030405060718, "the sum is stored");
	require(word(setting.words, 1) == 0 && word(setting.results, 1) == 0,
		"the words beside them are untouched");

	word(setting.words) = ~std::uint64_t{ 0 };
	setting.fetch_add(2);
	expect_done(setting, IBV_WC_FETCH_ADD);
	require(word(setting.words) == 1, "the sum wraps around");
}

void compare_and_swap(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.results.sge(0, 8);
	ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_CMP_AND_SWP, sge, 8);

	word(setting.words, 1) = 0x1122334455667788;
	wr.wr.atomic.compare_add = 0x1122334455667788;
	wr.wr.atomic.swap = 5;
	setting.post(wr);
	expect_done(setting, IBV_WC_COMP_SWAP);
	require(word(setting.results) == 0x1122334455667788, "the old value is returned");
	require(word(setting.words, 1) == 5, "an equal word is swapped");

	wr.wr.atomic.swap = 6;
	setting.post(wr);
	expect_done(setting, IBV_WC_COMP_SWAP);
	require(word(setting.results) == 5, "the old value is returned");
	require(word(setting.words, 1) == 5, "a word that is not equal is kept");
}

/* Posts far more atomics than may be outstanding, with writes and reads in between. */
void many_in_order(const std::string &address)
{
	Setting setting(address);
	Buffer from(setting.a.pd(), 4096), to(setting.b.pd(), 4096);

	for (std::uint64_t round = 0; round < 5; round++) {
		for (std::uint64_t i = 0; i < 20; i++) {
			setting.fetch_add(1, i);
			setting.a.write(from.sge(0, 4000), to.address(), to.mr()->rkey, 100 + i);
			setting.a.read(from.sge(0, 4000), to.address(), to.mr()->rkey, 200 + i);
		}
		for (std::uint64_t i = 0; i < 20; i++)
			for (std::uint64_t wr_id : { i, 100 + i, 200 + i })
				expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, wr_id);
		for (std::uint64_t i = 0; i < 20; i++)
			require(word(setting.results, i) == 20 * round + i,
				"each is executed once, in its turn");
	}
}

/* An atomic is executed after the write before it. A fenced send waits for the atomic's result. */
void among_others(const std::string &address)
{
	Setting setting(address);
	Buffer from(setting.a.pd(), 8), into(setting.b.pd(), 8);

	for (std::uint64_t i = 1; i < 50; i++) {
		ibv_sge sge = setting.results.sge(0, 8);
		ibv_send_wr send = {};

		send.sg_list = &sge;
		send.num_sge = 1;
		send.opcode = IBV_WR_SEND;
		send.send_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED;
		setting.b.receive(into.sge(0, 8), i);
		word(from) = 1000 * i;
		setting.a.write(from.sge(0, 8), setting.words.address(), setting.words.mr()->rkey);
		setting.fetch_add(i);
		setting.post(send);
		for (int n = 0; n < 3; n++)
			expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 0);
		expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, i);
		require(word(into) == 1000 * i, "the result is that of the write, and is sent");
		require(word(setting.words) == 1001 * i, "the atomic came after the write");
	}
}

/* The request completes with an error that the peer reported, and the word does not change. */
void expect_refused_by_peer(Setting &setting, ibv_send_wr &wr, ibv_wc_status status,
			    Where where = Where::current())
{
	ibv_sge sge = setting.results.sge(64, 8);
	ibv_send_wr next = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 64);

	next.wr_id = 2;
	next.wr.atomic.compare_add = 1;
	wr.wr.atomic.compare_add = 1;
	wr.next = &next;
	setting.post(wr, where);
	expect_completion(setting.a.send_cq(), status, 1, where);
	expect_completion(setting.a.send_cq(), IBV_WC_WR_FLUSH_ERR, 2, where);
	setting.pair.expect_disconnect(where);
	require(setting.a.state() == IBV_QPS_ERR && setting.b.state() == IBV_QPS_ERR,
		"both ends are in error", where);
	require(setting.words.is_zero() && setting.results.is_zero(), "nothing was done", where);
}

void unaligned(const std::string &address)
{
	for (std::uint64_t octet = 1; octet < 8; octet++) {
		Setting setting(address);
		ibv_sge sge = setting.results.sge(0, 8);
		ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, octet);

		expect_refused_by_peer(setting, wr, IBV_WC_REM_INV_REQ_ERR);
	}
}

void past_region(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.results.sge(0, 8);
	ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 4096);

	expect_refused_by_peer(setting, wr, IBV_WC_REM_ACCESS_ERR);
}

void unknown_stag(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.results.sge(0, 8);
	ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);

	wr.wr.atomic.rkey ^= 0x5a5a5a00;
	expect_refused_by_peer(setting, wr, IBV_WC_REM_ACCESS_ERR);
}

void without_right(const std::string &address)
{
	for (ibv_wr_opcode opcode : { IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP }) {
		Setting setting(address, Buffer::all_rights);
		ibv_sge sge = setting.results.sge(0, 8);
		ibv_send_wr wr = setting.request(opcode, sge);

		expect_refused_by_peer(setting, wr, IBV_WC_REM_ACCESS_ERR);
	}
}

void other_domain(const std::string &address)
{
	Setting setting(address);
	Pd pd(ibv_alloc_pd(setting.b.id()->verbs));
	Buffer other(pd.get(), 4096, atomic_rights);
	ibv_sge sge = setting.results.sge(0, 8);
	ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);

	wr.wr.atomic.remote_addr = other.address();
	wr.wr.atomic.rkey = other.mr()->rkey;
	expect_refused_by_peer(setting, wr, IBV_WC_REM_ACCESS_ERR);
	require(other.is_zero(), "the other region is untouched");
}

void read_only_result(const std::string &address)
{
	Setting setting(address);
	Buffer read_only(setting.a.pd(), 4096, IBV_ACCESS_REMOTE_READ);
	ibv_sge sge = read_only.sge(0, 8);
	ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);

	wr.wr.atomic.compare_add = 1;
	setting.post(wr);
	expect_completion(setting.a.send_cq(), IBV_WC_LOC_PROT_ERR, 1);
	setting.pair.expect_disconnect();
	require(setting.words.is_zero(), "nothing was done");
}

void wrong_requests(const std::string &address)
{
	Setting setting(address);

	for (std::uint32_t length : { 0, 4, 7, 9, 16 }) {
		ibv_sge sge = setting.results.sge(0, length);
		ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, sge);

		require(setting.a.post(wr) != 0,
			std::format("a result of {} octets is refused", length));
	}

	ibv_sge halves[] = { setting.results.sge(0, 4), setting.results.sge(4, 4) };
	ibv_send_wr wr = setting.request(IBV_WR_ATOMIC_FETCH_AND_ADD, halves[0]);

	wr.num_sge = 2;
	require(setting.a.post(wr) != 0, "a result in two pieces is refused");
	wr.num_sge = 0;
	require(setting.a.post(wr) != 0, "no place for the result is refused");
	halves[0].length = 8;
	wr.num_sge = 1;
	wr.send_flags |= IBV_SEND_INLINE;
	require(setting.a.post(wr) != 0, "an inline atomic is refused");
	setting.pair.expect_alive();
}

/* Additions per connection: FETCH_ADDS, or a number that an emulated machine does in seconds. */
std::uint64_t adds_per_connection()
{
	const char *wanted = std::getenv("FETCH_ADDS");

	return wanted ? std::strtoull(wanted, nullptr, 10) : 10000;
}

/* One of many connections that add 1 to the same word, with several requests in flight. */
class Adder
{
public:
	Adder(const std::string &address, ibv_cq *cq, std::uint64_t count)
		: pair_(address, { .cq = cq }, {}), results_(pair_.a().pd(), 4096), left_(count)
	{
	}

	End &b() { return pair_.b(); }
	std::uint32_t qp_num() { return pair_.a().qp()->qp_num; }

	void start(std::uint64_t remote, std::uint32_t rkey)
	{
		remote_ = remote;
		rkey_ = rkey;
		for (std::uint64_t i = 0; i < depth; i++)
			add_one(i);
	}

	/* Checks the next result. Results rise, because requests are executed in order. */
	void finish_one(std::uint64_t i)
	{
		std::uint64_t found = word(results_, i);

		require(!last_ || found > *last_, "results of one connection rise");
		last_ = found;
		add_one(i);
	}

private:
	static constexpr std::uint64_t depth = 32;

	void add_one(std::uint64_t i)
	{
		ibv_sge sge = results_.sge(8 * i, 8);
		ibv_send_wr wr = {};

		if (!left_)
			return;
		left_--;
		wr.wr_id = i;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.atomic.remote_addr = remote_;
		wr.wr.atomic.rkey = rkey_;
		wr.wr.atomic.compare_add = 1;
		if (int err = pair_.a().post(wr))
			fail("ibv_post_send", err);
	}

	Pair pair_;
	Buffer results_;
	std::uint64_t left_;
	std::uint64_t remote_ = 0;
	std::uint32_t rkey_ = 0;
	std::optional<std::uint64_t> last_;
};

/* Adds to the word, too, and checks that it only rises, until told to stop. */
struct LocalThread {
	explicit LocalThread(std::uint64_t &value)
		: thread([this, &value](std::stop_token stop) { run(value, stop); })
	{
	}

	void run(std::uint64_t &value, std::stop_token stop)
	{
		std::atomic_ref<std::uint64_t> shared(value);

		for (std::uint64_t last = 0; !stop.stop_requested(); added++) {
			std::uint64_t seen = shared.load();

			fell |= seen < last;
			last = shared.fetch_add(1) + 1;
			fell |= last <= seen;
			/* Leave CPU time to the connections. */
			if (added % 64 == 0)
				std::this_thread::yield();
		}
	}

	std::uint64_t added = 0;
	bool fell = false;
	std::jthread thread; /* last, because it uses the other members */
};

void eight_connections(const std::string &address)
{
	const std::uint64_t each = adds_per_connection();
	std::vector<std::unique_ptr<Adder>> adders;
	std::optional<Pair> first(address);
	Cq cq(ibv_create_cq(first->a().id()->verbs, 1024, nullptr, nullptr, 0));

	for (int i = 0; i < 8; i++)
		adders.push_back(std::make_unique<Adder>(address, cq.get(), each));

	/* The word, registered in the protection domain of each connection. */
	Buffer words(adders[0]->b().pd(), 4096, atomic_rights);
	std::vector<Mr> regions;
	LocalThread local(word(words));

	for (auto &adder : adders) {
		regions.emplace_back(
			ibv_reg_mr(adder->b().pd(), words.bytes().data(), 4096, atomic_rights));
		adder->start(words.address(), regions.back()->rkey);
	}
	for (std::uint64_t done = 0; done < 8 * each; done++) {
		ibv_wc wc = next_completion(cq.get());

		require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		for (auto &adder : adders)
			if (adder->qp_num() == wc.qp_num)
				adder->finish_one(wc.wr_id);
	}
	local.thread.request_stop();
	local.thread.join();
	require(!local.fell, "the word only rises");
	require(local.added > 0, "the local thread has added, too");
	require(word(words) == 8 * each + local.added,
		std::format("the sum is {}, not {}", 8 * each + local.added, word(words)));
}

const cases::Case all[] = {
	{ "a fetch-and-add returns what was there, and adds", fetch_and_add },
	{ "a compare-and-swap swaps only what is equal", compare_and_swap },
	{ "many atomics are executed once, and in order", many_in_order },
	{ "an atomic comes after a write, and before a fenced send", among_others },
	{ "an atomic on an address that is not aligned fails", unaligned },
	{ "an atomic past a region fails", past_region },
	{ "an atomic on an unknown STag fails", unknown_stag },
	{ "an atomic without the right to it fails", without_right },
	{ "an atomic on another PD fails", other_domain },
	{ "an atomic with a result into read-only memory fails", read_only_result },
	{ "atomics with other results than 8 octets are refused", wrong_requests },
	{ "eight connections and a thread give the exact sum", eight_connections },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
