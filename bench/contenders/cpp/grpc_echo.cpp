// gRPC C++ over a Unix socket, without TLS: unary calls, asynchronous ones for many at once, a client stream one way.
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "contender.hpp"
#include "echo.grpc.pb.h"

namespace {

std::string address(const std::string& work) { return "unix:" + work + "/grpc"; }

class Service final : public bench::Echo::Service {
  grpc::Status Echo(grpc::ServerContext*, const bench::Data* request, bench::Data* answer) override {
    answer->set_data(request->data());
    return grpc::Status::OK;
  }

  grpc::Status Drain(grpc::ServerContext*, grpc::ServerReader<bench::Data>* stream, bench::Count* count) override {
    bench::Data data;
    std::uint64_t taken = 0;
    while (stream->Read(&data)) ++taken;
    count->set_count(taken);
    return grpc::Status::OK;
  }
};

void serve(const std::string& work, const std::string&, const bench::Lifetime& lifetime) {
  Service service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort(address(work), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) throw std::runtime_error("gRPC cannot listen");
  lifetime.ready();
  lifetime.wait();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

void check(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error("gRPC: " + status.error_message());
}

// Calls under way, on the completion queue that gRPC means for this.
class Calls {
 public:
  Calls(bench::Echo::Stub& stub, const bench::Data& request, std::size_t count) : calls_(count) {
    for (Call& call : calls_) {
      call.reader = stub.AsyncEcho(&call.context, request, &queue_);
      call.reader->Finish(&call.answer, &call.status, &call);
    }
  }
  void finish() {
    void* tag = nullptr;
    bool ok = false;
    for (std::size_t n = 0; n < calls_.size(); ++n) {
      queue_.Next(&tag, &ok);
      check(static_cast<Call*>(tag)->status);
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    bench::Data answer;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<bench::Data>> reader;
  };
  grpc::CompletionQueue queue_;
  std::deque<Call> calls_;
};

class Client final : public bench::Client {
 public:
  explicit Client(const std::string& work) : stub_(bench::Echo::NewStub(channel_to(work))) {}

  std::size_t echo(const std::string& data) override {
    grpc::ClientContext context;
    bench::Data request, answer;
    request.set_data(data);
    check(stub_->Echo(&context, request, &answer));
    return answer.data().size();
  }

  void pipeline(const std::string& data, std::size_t count) override {
    bench::Data request;
    request.set_data(data);
    Calls(*stub_, request, count).finish();
  }

  void send(const std::string& data, std::size_t count, bool batch) override {
    grpc::ClientContext context;
    bench::Count taken;
    bench::Data message;
    message.set_data(data);
    const auto stream = stub_->Drain(&context, &taken);
    grpc::WriteOptions options;
    if (batch) options.set_buffer_hint();
    for (std::size_t n = 0; n < count; ++n) stream->Write(message, options);
    stream->WritesDone();
    check(stream->Finish());
  }

 private:
  static std::shared_ptr<grpc::Channel> channel_to(const std::string& work) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(address(work), grpc::InsecureChannelCredentials(), arguments);
  }
  const std::unique_ptr<bench::Echo::Stub> stub_;
};

}  // namespace

int main(int count, char** words) {
  return bench::run(count, words, serve,
                    [](const std::string& work, const std::string&) { return std::make_unique<Client>(work); });
}
