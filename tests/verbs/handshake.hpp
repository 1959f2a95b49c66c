/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* One attempt to connect, which may fail at either end at any time. */
#pragma once

#include "rdma.hpp"

#include <functional>
#include <memory>
#include <optional>

/* a calls, b is called. Both are ends of this process. */
class Handshake
{
public:
	/* What an end knows: nothing yet, that the connection works, or that it does not. */
	enum class Known { nothing, works, ended };

	explicit Handshake(const std::string &address);

	rdma::End &a() { return a_; }
	rdma::End &b() { return *b_; }
	bool works() const { return a_knows_ == Known::works && b_knows_ == Known::works; }

	/* Each of these returns 0 or an errno. With an error that end knows that it has failed. */
	int connect();
	int accept();
	int reject();
	int disconnect();

	/* Destroys b, as a program does that has rejected a call or could not do so. */
	void leave();

	/* Waits until a call comes, and makes the end that is to answer it. */
	void be_called();

	/* Waits until the connection works, or both ends know that it does not. Answers the call
	 * by accept(). Throws if an end is not told in time, or if only one end works.
	 */
	void settle();

	/* Waits until both ends know that the connection has ended. */
	void await_end();

	/* Registers memory at both ends. */
	void prepare();

	/* Writes to the memory of b and reads it back. Returns whether that succeeds. */
	bool exchange();

private:
	static constexpr std::uint32_t size = 65536;

	bool settled() const;
	void take_event();
	void answer(rdma::Id call);

	rdma::Listener listener_;
	rdma::EventChannel channel_;
	rdma::End a_;
	std::optional<rdma::End> b_;
	std::optional<rdma::Buffer> from_, to_, back_;
	Known a_knows_ = Known::nothing;
	Known b_knows_ = Known::nothing;
};
