#pragma once
#include <troupe/kernels/base/result.h>
#include <troupe/ps/messages.h>
#include <troupe/ps/param/shard_image.h>

/// What a shard demands of a message before it looks at its own state. Everything here came from another
/// process, perhaps a foreign one: nothing may be taken for granted, and nothing ends in a failed check.
namespace troupe::ps {

/// Indices in range, tensors that cover their layers, slices inside them and each in one parcel, parcels of one
/// server and policy.
Status check_layout(const Layout& layout);

/// A possible step, and a layout that passes the check above.
Status check_membership(const Membership& membership);

/// The parcel is `server`'s and takes pushes; sizes, types and numbers are possible.
Status check_push(const Push& push, const Layout& layout, ServerId server);

Status check_pull(const Pull& pull, const Layout& layout, ServerId server);

/// For a worker: a value of the right size for every slice of the parcel, and for all-reduced ones a state each whose
/// vectors have that size.
/// Of a pull by rows: the values of those that `pull` asked for.
Status check_pull_reply(const PullReply& reply, const Pull& pull, const Layout& layout);

/// All slices are `server`'s and all-reduced, each with `states` optimizer vectors.
Status check_install(const Install& install, const Layout& layout, ServerId server, size_t states);

/// Of a shard of `server` under the image's own layout, with `states` optimizer vectors a slice.
Status check_image(const ShardImage& image, ServerId server, size_t states);

}  // namespace troupe::ps
