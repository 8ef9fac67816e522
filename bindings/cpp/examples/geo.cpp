// Node `geo`: distances between places on the Earth, as a sphere. The service of examples/flights/services/geo.py: of two
// places, or of columns of them.
//
//   speed-example-geo [NAME] [--allow PATTERN]... [--root DIR] [--key FILE]
//
// Under speedd everything comes from the environment: SPEED_NODE, SPEED_ROOT, SPEED_KEY, SPEED_ALLOW and so on.
// It ends in order at SIGTERM or SIGINT.
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numbers>
#include <optional>
#include <span>
#include <sstream>

#include <speed/speed.hpp>

namespace {

constexpr double earth_radius_miles = 3958.7613;  // mean radius R1 of the WGS84 ellipsoid (6371.0088 km)

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

void check_within(double degrees, double limit, const char* what) {
  if (std::isfinite(degrees) && std::abs(degrees) <= limit) return;
  std::ostringstream text;
  text << what << ' ' << degrees << " is not within -" << limit << ".." << limit << " degrees";
  throw std::domain_error(text.str());
}

// Great-circle distance in statute miles between two places in degrees, north and east positive. The haversine form
// stays exact for near places, where the law of cosines loses all its digits.
double distance(double lat1, double lon1, double lat2, double lon2) {
  for (const double lat : {lat1, lat2}) check_within(lat, 90, "latitude");
  for (const double lon : {lon1, lon2}) check_within(lon, 180, "longitude");
  const double half_lat = radians(lat2 - lat1) / 2;
  const double half_lon = radians(lon2 - lon1) / 2;
  const double half_chord =
      std::hypot(std::sin(half_lat), std::sqrt(std::cos(radians(lat1)) * std::cos(radians(lat2))) * std::sin(half_lon));
  return 2 * earth_radius_miles * std::asin(std::min(1.0, half_chord));
}

// One argument of a batch: the rows of a column where they lie, or one number for all rows (C-6). Whole numbers will do.
class Degrees {
 public:
  Degrees(const speed::Request& request, std::string_view name, std::size_t rows)
      : value_(request.get<speed::Value>(name)) {
    column_ = value_.get_if<speed::Column>();
    if (column_ != nullptr && column_->kind() != speed::Column::Kind::int64) {
      rows_ = column_->float64();
      return;
    }
    if (column_ == nullptr) {
      widened_.assign(rows, request.get<double>(name));
    } else {
      widened_.assign(column_->int64().begin(), column_->int64().end());
    }
    rows_ = widened_;
  }
  Degrees(const Degrees&) = delete;
  Degrees& operator=(const Degrees&) = delete;

  double operator[](std::size_t row) const { return rows_[row]; }
  bool is_null(std::size_t row) const { return column_ != nullptr && column_->is_null(row); }

 private:
  speed::Value value_;
  const speed::Column* column_;
  std::vector<double> widened_;
  std::span<const double> rows_;
};

// `distance` for all rows of a batch. A row without a place has no distance; the first one that is no place is named (C-7).
speed::Column distances(const speed::Request& request, std::size_t rows) {
  const Degrees lat1(request, "lat1", rows), lon1(request, "lon1", rows);
  const Degrees lat2(request, "lat2", rows), lon2(request, "lon2", rows);
  std::vector<std::optional<double>> miles(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    if (lat1.is_null(row) || lon1.is_null(row) || lat2.is_null(row) || lon2.is_null(row)) continue;
    try {
      miles[row] = distance(lat1[row], lon1[row], lat2[row], lon2[row]);
    } catch (const std::domain_error& error) {
      throw speed::ExecutionFailedError("row " + std::to_string(row) + ": " + error.what(),
                                        {{"row", std::uint64_t{row}}});
    }
  }
  return speed::Column::of(miles);
}

speed::Response answer(const speed::Request& request) {
  request.allow_only({"lat1", "lon1", "lat2", "lon2"});
  const speed::Columns batch = request.columns();
  if (!batch.empty()) return speed::Value(distances(request, batch.front().second.rows()));
  return speed::Value(distance(request.get<double>("lat1"), request.get<double>("lon1"), request.get<double>("lat2"),
                               request.get<double>("lon2")));
}

std::string environment(const char* name, const std::string& otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

void serve(const std::string& name, const speed::NodeOptions& options, const std::vector<std::string>& allow) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  speed::Node node(name, options);
  node.serve("distance", answer);
  node.allow(allow);  // after the service, so that whoever may call also finds it
  int signal = 0;
  sigwait(&signals, &signal);
}

}  // namespace

int main(int count, char** words) {
  std::string name = environment("SPEED_NODE", "geo");
  std::vector<std::string> allow = list_of(environment("SPEED_ALLOW"));
  speed::NodeOptions options;
  options.fabrics = list_of(environment("SPEED_FABRICS"));
  options.workers = static_cast<unsigned>(std::stoul(environment("SPEED_WORKERS", "4")));
  options.lease = speed::Seconds(std::stod(environment("SPEED_LEASE_SECONDS", "30")));
  options.heartbeat = speed::Seconds(std::stod(environment("SPEED_HEARTBEAT_SECONDS", "5")));
  for (int at = 1; at < count; ++at) {
    const std::string word = words[at];
    const std::string value = at + 1 < count ? words[at + 1] : "";
    if (word == "--allow" || word == "--root" || word == "--key") ++at;
    if (word == "--allow") allow.push_back(value);
    else if (word == "--root") options.root = value;
    else if (word == "--key") options.key = value;
    else name = word;
  }
  try {
    serve(name, options, allow);
  } catch (const speed::Error& error) {
    std::cerr << error.code() << ": " << error.what() << "\n";
    return 3;
  }
  return 0;
}
