#include "segment/parity.hpp"

#include <algorithm>
#include <cstring>

#include "speed/segment.hpp"

namespace speed::segment {

namespace {

constexpr std::size_t cached_bytes = 128 << 10;  // worked on at a time: they stay in a core's second cache
constexpr std::size_t most_slice_bytes = 4 << 10;

std::size_t slice_of(std::size_t run) {
  const std::size_t share = cached_bytes / (2 * run) / shard_unit * shard_unit;
  return std::clamp(share, shard_unit, most_slice_bytes);
}

void clear(std::byte* shard, std::size_t width) { std::memset(shard, 0, width); }

}  // namespace

Encoder::Encoder(unsigned data_count, unsigned parity_count)
    : data_count_(data_count),
      parity_count_(parity_count),
      field_(Field::of(data_count, parity_count)),
      run_(run_of(parity_count)),
      slice_bytes_(slice_of(run_)) {
  if (is_sum()) return;
  const std::size_t runs = (data_count + run_ - 1) / run_;
  for (std::size_t at = 0; at < (runs + 1) * run_; ++at) by_skew_.emplace_back(field_, field_.skew(at));
  work_.resize(run_ * slice_bytes_);
  total_.resize(run_ * slice_bytes_);
}

void Encoder::encode(ShardViews data, ShardRoom parity, std::size_t width) {
  if (is_sum()) return encode_sum(data, parity, width);
  for (std::size_t begin = 0; begin < width; begin += slice_bytes_) {
    encode_slice(data, parity, begin, std::min(slice_bytes_, width - begin));
  }
}

void Encoder::encode_sum(ShardViews data, ShardRoom parity, std::size_t width) const {
  clear(parity[0], width);
  for (const std::byte* const shard : data) {
    if (shard != nullptr) add(parity[0], shard, width);
  }
  for (std::byte* const copy : parity.subspan(1)) std::memcpy(copy, parity[0], width);
}

void Encoder::encode_slice(ShardViews data, ShardRoom parity, std::size_t begin, std::size_t width) {
  std::ranges::fill(total_, std::byte{0});
  for (std::size_t first = 0; first < data_count_; first += run_) {
    const std::size_t count = std::min<std::size_t>(run_, data_count_ - first);
    for (std::size_t row = 0; row < run_; ++row) {
      const std::byte* const shard = row < count ? data[first + row] : nullptr;
      shard == nullptr ? clear(work(row), width) : static_cast<void>(std::memcpy(work(row), shard + begin, width));
    }
    into_basis(first, count, width);
    for (std::size_t row = 0; row < run_; ++row) add(total(row), work(row), width);
  }
  out_of_basis(width);
  for (std::size_t row = 0; row < parity_count_; ++row) std::memcpy(parity[row] + begin, total(row), width);
}

// Rows from `count` on are zeros, and stay so where a whole group of them is met.
void Encoder::into_basis(std::size_t first, std::size_t count, std::size_t width) {
  for (std::size_t distance = 1; distance < run_; distance *= 2) {
    for (std::size_t group = 0; group < count; group += 2 * distance) {
      const Product& product = by_skew_[run_ - 1 + first + group + distance];
      for (std::size_t row = group; row < group + distance; ++row) {
        add(work(row + distance), work(row), width);
        product.add(work(row), work(row + distance), width);
      }
    }
  }
}

// Rows from the parity count on are not wanted.
void Encoder::out_of_basis(std::size_t width) {
  for (std::size_t distance = run_ / 2; distance > 0; distance /= 2) {
    for (std::size_t group = 0; group < parity_count_; group += 2 * distance) {
      const Product& product = by_skew_[group + distance - 1];
      for (std::size_t row = group; row < group + distance; ++row) {
        product.add(total(row), total(row + distance), width);
        add(total(row + distance), total(row), width);
      }
    }
  }
}

// Shard i is 1 at word i and 0 elsewhere: word i of the parity is then column i.
std::vector<std::vector<unsigned>> Encoder::matrix() {
  const bool is_wide = field_.bits() == 16;
  const std::size_t unit_words = is_wide ? shard_unit / 2 : shard_unit;
  const std::size_t width = (data_count_ + unit_words - 1) / unit_words * shard_unit;
  const auto place = [&](std::size_t word) { return word / unit_words * shard_unit + word % unit_words; };
  std::vector<std::vector<std::byte>> ones(data_count_, std::vector<std::byte>(width));
  std::vector<std::vector<std::byte>> rows(parity_count_, std::vector<std::byte>(width));
  std::vector<const std::byte*> data;
  std::vector<std::byte*> parity;
  for (std::size_t index = 0; index < data_count_; ++index) {
    ones[index][place(index)] = std::byte{1};
    data.push_back(ones[index].data());
  }
  for (auto& row : rows) parity.push_back(row.data());
  encode(data, parity, width);
  std::vector<std::vector<unsigned>> elements(parity_count_, std::vector<unsigned>(data_count_));
  for (std::size_t row = 0; row < parity_count_; ++row) {
    for (std::size_t index = 0; index < data_count_; ++index) {
      const std::byte* const word = rows[row].data() + place(index);
      elements[row][index] = std::to_integer<unsigned>(word[0]);
      if (is_wide) elements[row][index] |= std::to_integer<unsigned>(word[shard_unit / 2]) << 8;
    }
  }
  return elements;
}

Decoder::Decoder(unsigned data_count, unsigned parity_count, std::vector<unsigned> missing,
                 std::vector<unsigned> parity)
    : encoder_(data_count, parity_count),
      parity_count_(parity_count),
      missing_(std::move(missing)),
      parity_(std::move(parity)) {
  solve(encoder_.matrix());
}

// Inverts what the missing shards contribute to the parity at hand, by elimination; it is always regular (G-10).
void Decoder::solve(const std::vector<std::vector<unsigned>>& matrix) {
  const Field& field = encoder_.field();
  const std::size_t size = missing_.size();
  std::vector<std::vector<unsigned>> rows(size, std::vector<unsigned>(2 * size));
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = 0; column < size; ++column) rows[row][column] = matrix[parity_[row]][missing_[column]];
    rows[row][size + row] = 1;
  }
  for (std::size_t at = 0; at < size; ++at) {
    const auto pivot = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(at), rows.end(),
                                    [&](const std::vector<unsigned>& row) { return row[at] != 0; });
    std::swap(rows[at], *pivot);
    const unsigned scale = field.inverse_log(rows[at][at]);
    for (unsigned& element : rows[at]) element = field.times(element, scale);
    for (std::size_t other = 0; other < size; ++other) {
      if (other == at || rows[other][at] == 0) continue;
      const unsigned factor = field.log(rows[other][at]);
      for (std::size_t column = 0; column < 2 * size; ++column) {
        rows[other][column] ^= field.times(rows[at][column], factor);
      }
    }
  }
  for (const std::vector<unsigned>& row : rows) {
    std::vector<Product>& products = solution_.emplace_back();
    for (std::size_t column = size; column < 2 * size; ++column) products.emplace_back(field, field.log(row[column]));
  }
}

void Decoder::decode(ShardViews data, ShardViews parity, ShardRoom found, std::size_t width) {
  sums_.resize(parity_count_ * width);
  std::vector<std::byte*> sums;
  for (std::size_t row = 0; row < parity_count_; ++row) sums.push_back(sums_.data() + row * width);
  encoder_.encode(data, sums, width);
  for (std::size_t row = 0; row < parity_.size(); ++row) add(sums[parity_[row]], parity[row], width);
  for (std::size_t row = 0; row < found.size(); ++row) {
    clear(found[row], width);
    for (std::size_t column = 0; column < parity_.size(); ++column) {
      solution_[row][column].add(found[row], sums[parity_[column]], width);
    }
  }
}

}  // namespace speed::segment
