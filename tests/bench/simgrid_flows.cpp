// Runs flows in SimGrid, max-min fair: simgrid_flows PLATFORM [--cfg=SETTING ...] < FLOWS
//
// A line of FLOWS is a flow's start in seconds, its source, its destination and its bytes, in the
// order of starts; the hosts of PLATFORM are named by numbers. Prints the CPU seconds of the
// simulation alone, without reading and printing, and then the finish time of each flow.

#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <xbt/log.h>

namespace sg = simgrid::s4u;

struct Flow {
  double start;
  int src, dst;
  unsigned long long bytes;
  sg::CommPtr comm = nullptr;
};

static double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int main(int argc, char** argv)
{
  xbt_log_control_set("root.thres:warning");
  sg::Engine engine(&argc, argv);
  for (const char* setting : {
           // Nothing of TCP: each flow takes its max-min share of the links' whole capacity.
           "network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1",
           "network/weight-S:0", "network/TCP-gamma:0", "network/crosstraffic:0",
           // Times closer than the first are one event: 1e-9 s would be 1e-6 of a short flow.
           "surf/precision:1e-12", "maxmin/precision:1e-12"})
    sg::Engine::set_config(setting);
  engine.load_platform(argv[1]);

  std::vector<sg::Host*> host;
  for (std::size_t i = 0; i < engine.get_host_count(); i++)
    host.push_back(engine.host_by_name(std::to_string(i)));
  std::vector<Flow> flows;
  for (Flow f; std::scanf("%lf %d %d %llu", &f.start, &f.src, &f.dst, &f.bytes) == 4;)
    flows.push_back(f);

  // A timer that sets itself again starts the flows, so that SimGrid need not carry actors, too.
  const double before = cpu_s();
  std::size_t next    = 0;
  std::function<void()> start_due = [&] {
    for (; next < flows.size() && flows[next].start <= sg::Engine::get_clock(); next++) {
      Flow& f = flows[next];
      f.comm  = sg::Comm::sendto_init(host[f.src], host[f.dst])->set_payload_size(f.bytes);
      f.comm->start();
    }
    if (next < flows.size())
      simgrid::kernel::timer::Timer::set(flows[next].start, start_due);
  };
  start_due();
  engine.run();
  std::printf("%.6f\n", cpu_s() - before);
  for (const Flow& f : flows)
    std::printf("%.17g\n", f.comm->get_finish_time());
}
